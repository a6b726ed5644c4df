"""Mechanisms: how a value is protected."""

from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict

__all__ = ["Gaussian", "Laplace", "Mechanism", "mechanism_from_dict"]
