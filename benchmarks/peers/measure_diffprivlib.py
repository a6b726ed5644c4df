"""diffprivlib's scalar mechanisms, one call a draw; the bounded one: scale 0.1, centre 0.3, on [0, 1]."""

from diffprivlib import __version__
from diffprivlib.mechanisms import GaussianAnalytic, Laplace, LaplaceBoundedDomain

from timing import figure, tell

DRAWS = 10_000
mechanisms = {
    "Laplace": Laplace(epsilon=1.0, sensitivity=1.0),
    "Gaussian": GaussianAnalytic(epsilon=1.0, delta=1e-5, sensitivity=1.0),
    "truncated Laplace": LaplaceBoundedDomain(epsilon=10.0, sensitivity=1.0, lower=0.0, upper=1.0),
}


def draw(mechanism):
    """Call a mechanism once for each draw."""
    for _ in range(DRAWS):
        mechanism.randomise(0.3)


figures = [figure(task, "diffprivlib (insecure)", lambda m=m: draw(m), draws=DRAWS) for task, m in mechanisms.items()]
tell(f"diffprivlib {__version__}", figures)
