"""Exact: a true, still private value with what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.noise.truth import Truth, float_truth, saturated
from discreet.core.protection import Neighbours, Protection, Unit
from discreet.core.sensitivity import Sensitivity

__all__ = ["Exact"]


@dataclass(frozen=True)
class Exact:
    """A true, still private value with what is known of it. Its repr never shows the value.

    Parameters
    ----------
    value
        A number, a `fractions.Fraction`, or an array of them; exact as it stands.
    sensitivity
        How far one unit can move it.
    protection
        Between which data sets, whose data counts as one unit, and what is taken as public.
    statistic
        The public description of what was measured; the core only hands it on.
    public
        Public facts that inference needs, such as n under replace-one neighbours.

    Examples
    --------
    >>> Exact(10.0, Sensitivity(l1=1.0))
    Exact(value=‹private›, sensitivity=ℓ₁ = 1, ℓ₂ = 1, protects against adding or removing one row)
    """

    value: Truth = field(repr=False)
    sensitivity: Sensitivity
    protection: Protection = field(default_factory=Protection)
    statistic: Any = None
    public: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requirements.instance("sensitivity", self.sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
        requirements.instance("protection", self.protection, Protection, "Protection(), for example")
        object.__setattr__(self, "value", saturated(self.value))
        if float_truth(self.value).size == 0:
            raise InvalidParameter("value", "…", "must not be empty", "Pass a number or a non-empty array.")

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets must be hard to tell apart."""
        return self.protection.neighbours

    @property
    def unit(self) -> Unit:
        """Whose data counts as one."""
        return self.protection.unit

    def __repr__(self) -> str:
        return f"Exact(value=‹private›, sensitivity={self.sensitivity}, protects against {self.protection})"
