"""OpenDP's exact vector mechanisms and its noisy max."""

from functools import partial
from importlib.metadata import version

import opendp.prelude as dp

from timing import figure, tell

dp.enable_features("contrib")

DRAWS = 10_000  # of up to 0.1 ms each
truth = [0.0] * DRAWS
vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=DRAWS)
figures = []
for subject, k in {"OpenDP": None, "OpenDP, grid 2^-40": -40}.items():
    laplace = dp.m.make_laplace(vectors, dp.l1_distance(T=float), scale=1.0, k=k)
    gaussian = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=1.0, k=k)
    figures.append(figure("Laplace", subject, partial(laplace, truth), draws=DRAWS, repeats=3))
    figures.append(figure("Gaussian", subject, partial(gaussian, truth), draws=DRAWS, repeats=3))

scores = [float(candidate % 100) for candidate in range(10_000)]
space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
for subject, measure in {
    "OpenDP, exponential noise": dp.max_divergence(),
    "OpenDP, Gumbel noise": dp.zero_concentrated_divergence(),
}.items():
    choose = dp.m.make_noisy_max(*space, measure, scale=10.0)
    figures.append(figure("choice of 10,000", subject, partial(choose, scores), draws=1))

tell(f"OpenDP {version('opendp')}", figures)
