"""discreet: statistics about people, and valid conclusions from them, under differential privacy.

The names that most work needs are here; mechanisms, statistics and tests are in the rooms `discreet.mechanisms`,
`discreet.questions` and `discreet.inference`. Each list stands once, in the stub beside the file: type checkers and
editors read it, and names are imported when first used, so that ``import discreet`` stays light.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)

__version__ = "0.1.0"
