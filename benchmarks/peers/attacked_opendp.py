"""OpenDP's measurements on worst neighbours."""

import math
import sys
from importlib.metadata import version

import opendp.prelude as dp
from attacked import tell

dp.enable_features("contrib", "floating-point", "honest-but-curious")
LIBRARY = f"OpenDP {version('opendp')}"
SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
PURE = {"kind": "pure", "epsilon": 1.0}
REPLACED = "one row replaced"


def attack(name, neighbours, claim, ask, here, there, draws=10_000):
    """Tell draws of one measurement."""
    tell(LIBRARY, name, neighbours, claim, ask, here, there, int(draws * SCALE))


def noisy(kind, distance, value, **options):
    """A scalar measurement."""
    return kind(
        dp.atom_domain(T=type(value), nan=False) if isinstance(value, float) else dp.atom_domain(T=int),
        distance,
        **options,
    )


laplace = noisy(dp.m.make_laplace, dp.absolute_distance(T=float), 0.0, scale=1.0)
geometric = noisy(dp.m.make_laplace, dp.absolute_distance(T=int), 0, scale=1.0)
gaussian = noisy(dp.m.make_gaussian, dp.absolute_distance(T=float), 0.0, scale=1.0)
attack("Laplace", "0 and 1", PURE, laplace, 0.0, 1.0, 20_000)
attack("Laplace on whole numbers", "0 and 1", PURE, geometric, 0, 1, 20_000)
attack("Gaussian", "0 and 1", {"kind": "zero_concentrated", "rho": 0.5}, gaussian, 0.0, 1.0, 20_000)

floats = dp.vector_domain(dp.atom_domain(T=float, nan=False))
bounded = dp.t.make_clamp(floats, dp.symmetric_distance(), (0.0, 1.0)) >> dp.t.then_resize(10, 0.0)


def calibrated(transformation, distance):
    """A Laplace measurement that loses ε = 1 at this distance."""
    scale = dp.binary_search(
        lambda s: (transformation >> dp.m.then_laplace(scale=s)).map(distance) <= 1.0, bounds=(1e-6, 1e6)
    )
    return transformation >> dp.m.then_laplace(scale=scale)


mean = calibrated(bounded >> dp.t.then_mean(), 2)
total = calibrated(bounded >> dp.t.then_sum(), 2)
variance = calibrated(bounded >> dp.t.then_variance(), 2)
zeros, one = [0.0] * 10, [0.0] * 9 + [1.0]
attack("mean", REPLACED, PURE, mean, zeros, one)
attack("sum, beyond its bounds", REPLACED, PURE, total, zeros, [0.0] * 9 + [1e9])
attack("variance", REPLACED, PURE, variance, zeros, one)

count = dp.t.make_count(dp.vector_domain(dp.atom_domain(T=float)), dp.symmetric_distance())
attack("count of rows with NaN", "one row added", PURE, count >> dp.m.then_laplace(scale=1.0), [0.0], [0.0, math.nan])
