"""PipelineDP's additive noise, which is PyDP's: scalar mechanisms, called in a loop."""

from importlib.metadata import version

from pipeline_dp import dp_computations

from timing import figure, tell

DRAWS = 50_000
mechanisms = {
    "Laplace": dp_computations.LaplaceMechanism.create_from_epsilon(1.0, 1.0),
    "Gaussian": dp_computations.GaussianMechanism.create_from_epsilon_delta(1.0, 1e-5, 1.0),
}


def draw(mechanism):
    """Call a mechanism once for each draw."""
    for _ in range(DRAWS):
        mechanism.add_noise(0.0)


figures = [figure(task, "PipelineDP", lambda m=m: draw(m), draws=DRAWS) for task, m in mechanisms.items()]
tell(f"PipelineDP {version('pipeline-dp')}", figures)
