"""Inference: what follows from released numbers, without another look at the data."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
