"""Slope of hours on age in samples of 5,000 of Adult at ε = 1, by diffprivlib with the same bounds."""

import csv
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression

RESULTS = Path(__file__).parents[1] / "results" / "regression.json"


def main(path: str, repeats: int = 200) -> None:
    """Error of the noise: the private slope less that of the same sample without noise."""
    warnings.simplefilter("ignore")
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    age, hours = (np.array([float(row[name]) for row in rows]) for name in ("age", "hours-per-week"))
    rng, errors = np.random.default_rng(1), []
    for _ in range(repeats):
        chosen = rng.integers(0, len(rows), 5_000)
        model = LinearRegression(epsilon=1.0, bounds_X=(17, 90), bounds_y=(1, 99))
        model.fit(age[chosen][:, None], hours[chosen])
        errors.append(float(np.ravel(model.coef_)[0]) - np.polyfit(age[chosen], hours[chosen], 1)[0])
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    found["diffprivlib 0.6.6: hours on age, 5,000 people, ε = 1"] = {
        "RMSE of the noise": [float(np.sqrt(np.mean(np.square(errors))))]
    }
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
