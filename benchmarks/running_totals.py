"""Twenty-four monthly running totals for one guarantee: three ways to release them, and their errors.

Every way releases from the same growing register at μ = 0.5 in all. Prints the root mean squared error of the running
totals of all months and of the last one, and of what a single month added.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from discreet import Categories, GaussianDP, Schema, Session

MONTHS = [f"{2026 + place // 12}-{1 + place % 12:02d}" for place in range(24)]
WHOLE = GaussianDP(0.5)
SCHEMA = Schema(columns={"month": Categories(MONTHS)})
ADDED = np.random.default_rng(7).integers(300, 600, len(MONTHS))
ROWS = pa.table({"month": np.repeat(MONTHS, ADDED)})


def session(rows: pa.Table = ROWS) -> Session:
    """A session of its own for every way."""
    return Session(rows, SCHEMA, ledger=":memory:", budget=WHOLE)


def running() -> np.ndarray:
    """`running_total`, month after month."""
    asked = session()
    for month in MONTHS:
        found = asked.running_total("month", guarantee=WHOLE, period=month)
    return np.array([*found.totals.values()])


def split() -> np.ndarray:
    """A count of all rows so far every month, for a twenty-fourth of the budget each."""
    share = WHOLE.split(len(MONTHS))[0]
    so_far = np.cumsum(ADDED)
    return np.array([session(ROWS.slice(0, int(rows))).count(guarantee=share).measured for rows in so_far])


def added_up() -> np.ndarray:
    """A count of each month's own rows, for all of the budget, since every row is in one month; added up."""
    return np.cumsum(np.asarray(session().count(guarantee=WHOLE, by="month").measured))


WAYS: dict[str, Callable[[], np.ndarray]] = {
    "running_total": running,
    "a count every month, even split": split,
    "counts by month, added up": added_up,
}


def main(repeats: int) -> None:
    """Print the table."""
    truth = np.cumsum(ADDED)
    print(f"{'24 months, μ = 0.5':<34} {'all months':>10} {'last month':>10} {'one month':>10}")
    for name, way in WAYS.items():
        errors = np.array([way() for _ in range(repeats)]) - truth
        steps = np.diff(errors, axis=1, prepend=0.0)
        rms = [float(np.sqrt(np.mean(one**2))) for one in (errors, errors[:, -1], steps)]
        print(f"{name:<34} {rms[0]:>10.2f} {rms[1]:>10.2f} {rms[2]:>10.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
