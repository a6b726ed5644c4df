from .bounded.covariance import BoundedCovariance as BoundedCovariance
from .bounded.laplace import BoundaryInflatedLaplace as BoundaryInflatedLaplace
from .bounded.laplace import BoundedLaplace as BoundedLaplace
from .bounded.proportions import BoundedProportions as BoundedProportions
from .bounded.proportions import TiedPair as TiedPair
from .bounded.scale import bounded_laplace_scales as bounded_laplace_scales
from .box_noise import BoxNoise as BoxNoise
from .choices.group_selection import GaussianThreshold as GaussianThreshold
from .choices.group_selection import OptimalSelection as OptimalSelection
from .choices.quantile import QuantileChoice as QuantileChoice
from .choices.quantile import QuantileInterval as QuantileInterval
from .choices.selection import ExponentialMechanism as ExponentialMechanism
from .choices.selection import PermuteAndFlip as PermuteAndFlip
from .choices.selection import ReportNoisyMax as ReportNoisyMax
from .composition import compose_curves as compose_curves
from .discrete_gaussian import DiscreteGaussian as DiscreteGaussian
from .gaussian import Gaussian as Gaussian
from .generalized_gaussian import GeneralizedGaussian as GeneralizedGaussian
from .geometric import Geometric as Geometric
from .laplace import Laplace as Laplace
from .omission.step import OutlierSuppression as OutlierSuppression
from .omission.step import PoissonSample as PoissonSample
from .tables.james_stein import JamesSteinGaussian as JamesSteinGaussian
from .tables.james_stein import RankDeficientGaussian as RankDeficientGaussian
from .tables.post_processed import Clipped as Clipped
from .whole_share import WholeShare as WholeShare

__all__: list[str]
