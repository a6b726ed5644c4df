"""Make ``survey.csv``: 4,000 made-up answers, one row a person. Run it to write the file again."""

from __future__ import annotations

import csv
import random
from pathlib import Path

ROWS = 4000


def main() -> None:
    """Write the same file every time."""
    rng = random.Random(7)
    with (Path(__file__).parent / "survey.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["age", "region", "visits", "satisfied"])
        for _ in range(ROWS):
            age = min(max(round(rng.gauss(46, 16)), 18), 99)
            region = rng.choices(["north", "south", "west"], [3, 4, 2])[0]
            satisfied = "yes" if rng.random() < {"north": 0.55, "south": 0.65, "west": 0.6}[region] else "no"
            writer.writerow([age, region, int(rng.expovariate(0.3)), satisfied])


if __name__ == "__main__":
    main()
