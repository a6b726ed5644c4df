"""A first count of 1,000 rows with diffprivlib."""

from diffprivlib.mechanisms import Geometric

print(Geometric(epsilon=1.0, sensitivity=1).randomise(len([float(i) for i in range(1000)])))
