"""diffprivlib's bounded Laplace mechanism: a fresh object and its scale for each problem, and one call a draw.

The problems come as JSON on the standard input: for each task a list of (ε, δ, Δ) on the domain [0, 1].
"""

import json
import sys

from diffprivlib import __version__
from diffprivlib.mechanisms import LaplaceBoundedDomain

from timing import figure, tell

DRAWS = 10_000
mechanism = LaplaceBoundedDomain(epsilon=1.0, sensitivity=0.1, lower=0.0, upper=1.0)


def solve(rows):
    """Find the scale of every problem; the library has no public name for it."""
    for epsilon, delta, sensitivity in rows:
        made = LaplaceBoundedDomain(epsilon=epsilon, delta=delta, sensitivity=sensitivity, lower=0.0, upper=1.0)
        made._find_scale()


def draw():
    """Call the mechanism once for each draw."""
    for _ in range(DRAWS):
        mechanism.randomise(0.3)


figures = [
    figure(task, "diffprivlib", lambda rows=rows: solve(rows), draws=len(rows), repeats=3)
    for task, rows in json.load(sys.stdin).items()
]
figures.append(figure("bounded draws", "diffprivlib (insecure)", draw, draws=DRAWS, repeats=3))
tell(f"diffprivlib {__version__}", figures)
