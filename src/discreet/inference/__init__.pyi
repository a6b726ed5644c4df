from .noise import Asymptotic as Asymptotic
from .noise import MonteCarlo as MonteCarlo
from .tables import goodness_of_fit as goodness_of_fit
from .tables import homogeneity as homogeneity
from .tables import independence as independence
from .two_sample import DoubleSanitization as DoubleSanitization
from .two_sample import MultipleSynthesis as MultipleSynthesis

__all__: list[str]
