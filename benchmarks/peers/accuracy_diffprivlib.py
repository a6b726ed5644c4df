"""Many releases of the same statistics with diffprivlib's tools; means, sums and variances take n as public."""

import json
import math
import sys

import numpy as np
from diffprivlib import __version__, tools
from diffprivlib.mechanisms import GaussianAnalytic

data = json.load(sys.stdin)
low, high = data["bounds"]
bounds, repeats = (float(low), float(high)), data["repeats"]
ages = np.array(data["ages"], dtype=float)
incomes = np.array(data["incomes"], dtype=float)
totals = np.array(data["answers"]).sum(axis=0)
gaussian = GaussianAnalytic(epsilon=1.0, delta=1e-6, sensitivity=math.sqrt(20))


def told(call, ask, times=repeats):
    """The call and what it answered."""
    return {"call": call, "values": [ask() for _ in range(times)]}


def table():
    """The cells of a two-way histogram."""
    cells = tools.histogram2d(data["rows"], data["columns"], epsilon=1.0, bins=(4, 5), range=((0, 4), (0, 5)))[0]
    return [float(cell) for cell in cells.ravel()]


def histogram():
    """The bins of a histogram."""
    bins = tools.histogram(ages, epsilon=1.0, bins=data["edges"], range=bounds)[0]
    return [float(count) for count in bins]


found = {
    "count": told("tools.count_nonzero", lambda: float(tools.count_nonzero(ages >= 65, epsilon=1.0))),
    "sharp count": told("tools.count_nonzero", lambda: float(tools.count_nonzero(ages >= 65, epsilon=2.0))),
    "tied median": told("tools.median", lambda: float(tools.median(ages, epsilon=1.0, bounds=bounds))),
    "wide median": told(
        "tools.median",
        lambda: float(tools.median(ages, epsilon=1.0, bounds=(-float(data["wide"]), float(data["wide"])))),
    ),
    "median": told(
        "tools.median", lambda: float(tools.median(incomes, epsilon=1.0, bounds=(0.0, float(data["richest"]))))
    ),
    "share": told("tools.count_nonzero", lambda: 100 * float(tools.count_nonzero(ages >= 65, epsilon=1.0)) / len(ages)),
    "sampled median": {
        "call": "tools.median",
        "values": [
            float(tools.median(np.array(sample, dtype=float), epsilon=1.0, bounds=(0.0, float(data["richest"]))))
            for sample in data["samples"]
        ],
    },
    "histogram": told("tools.histogram", histogram, repeats // 5),
    "table": told("tools.histogram2d", table, repeats // 5),
    "answers": told(
        "mechanisms.GaussianAnalytic",
        lambda: [float(gaussian.randomise(float(total))) for total in totals],
        repeats // 5,
    ),
    "public mean": told("tools.mean", lambda: float(tools.mean(ages, epsilon=1.0, bounds=bounds))),
    "public variance": told(
        "tools.var", lambda: float(tools.var(ages, epsilon=1.0, bounds=bounds)) * len(ages) / (len(ages) - 1)
    ),
}
print(json.dumps({"version": __version__, "answers": found}))
