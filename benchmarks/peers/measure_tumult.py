"""Tumult Core's exact scalar samplers, called in a loop."""

from importlib.metadata import version

from tmlt.core.random.continuous_gaussian import gaussian
from tmlt.core.random.laplace import laplace

from timing import figure, tell

DRAWS = 5_000


def draw(sample):
    """Call a sampler once for each draw."""
    for _ in range(DRAWS):
        sample(0.0, 1.0)


figures = [
    figure(task, "Tumult Core", lambda sample=sample: draw(sample), draws=DRAWS)
    for task, sample in {"Laplace": laplace, "Gaussian": gaussian}.items()
]
tell(f"Tumult Core {version('tmlt.core')}", figures)
