"""A first count of the rows of a CSV file with diffprivlib."""

import csv
import sys

from diffprivlib.mechanisms import Geometric

with open(sys.argv[1], newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
print(Geometric(epsilon=0.5, sensitivity=1).randomise(len(rows)))
