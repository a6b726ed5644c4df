"""Google's C++ library through PyDP: scalar mechanisms, called in a loop."""

from importlib.metadata import version

from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

from timing import figure, tell

DRAWS = 100_000
mechanisms = {
    "Laplace": LaplaceMechanism(epsilon=1.0, sensitivity=1.0),
    "Gaussian": GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0),
}


def draw(mechanism):
    """Call a mechanism once for each draw."""
    for _ in range(DRAWS):
        mechanism.add_noise(0.0)


figures = [figure(task, "PyDP", lambda m=m: draw(m), draws=DRAWS) for task, m in mechanisms.items()]
tell(f"PyDP {version('python-dp')}", figures)
