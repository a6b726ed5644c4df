"""A first count of the rows of a CSV file with OpenDP."""

import csv
import sys

import opendp.prelude as dp

dp.enable_features("contrib")
with open(sys.argv[1], newline="", encoding="utf-8") as file:
    ages = [float(row["age"]) for row in csv.DictReader(file)]
space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
count = space >> dp.t.then_count() >> dp.m.then_laplace(2.0)
print(count(ages))
