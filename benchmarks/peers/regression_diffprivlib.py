"""Slopes in samples of 5,000 of Adult and of ACS at ε = 1, by diffprivlib with the bounds of `regression`."""

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression

HERE = Path(__file__).parents[1]
RESULTS = HERE / "results" / "regression.json"


def main(path: str, repeats: int = 200) -> None:
    """Error of the noise: the private slopes less those of the same sample without noise.

    The file has samples as ``python benchmarks/regression.py`` reads them, in columns between 0 and 1.
    """
    warnings.simplefilter("ignore")
    asked = json.loads(Path(path).read_text(encoding="utf-8"))
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, one in asked.items():
        rows, rng, errors, sampled = np.array(one["rows"]), np.random.default_rng(1), [], []
        for _ in range(repeats):
            sample = rows[rng.integers(0, len(rows), 5_000)]
            model = LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1))
            model.fit(sample[:, :-1], sample[:, -1])
            design = np.column_stack([np.ones(len(sample)), sample[:, :-1]])
            own = np.linalg.lstsq(design, sample[:, -1], rcond=None)[0][1:]
            errors.append(np.ravel(model.coef_) - own)
            sampled.append(own)
        usual = np.median(np.abs(errors), axis=0) / 0.6745
        found[f"diffprivlib {version('diffprivlib')}: {name}, 5,000 people, ε = 1"] = {
            "RMSE of the noise": (np.sqrt(np.mean(np.square(errors), axis=0)) * one["units"]).tolist(),
            "noise over sampling": (usual / np.std(sampled, axis=0)).tolist(),
        }
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
