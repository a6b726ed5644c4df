"""Questions: what can be asked of a data set, described from public facts alone.

The list is `discreet.questions.facade.Questions`. Sessions, planners, plan files, skeletons and the help of the command
line follow it.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
