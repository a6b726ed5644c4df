"""Spending: a guarantee as a caller gives it, whole or by its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.questions.question import Question

__all__ = ["KINDS", "PARAMETERS", "Spend", "spending"]


class Spend(TypedDict, total=False):
    """The parameters of a guarantee: ε, ε and δ, ρ, or μ."""

    epsilon: float
    delta: float
    rho: float
    mu: float


PARAMETERS = ("epsilon", "delta", "rho", "mu")
KINDS: dict[frozenset[str], Any] = {
    frozenset({"epsilon"}): PureDP,
    frozenset({"epsilon", "delta"}): ApproxDP,
    frozenset({"rho"}): ZeroConcentratedDP,
    frozenset({"mu"}): GaussianDP,
}
"""Which parameters make which kind of guarantee."""


def spending(kind: type[Question[Any]], guarantee: Guarantee | None, given: Mapping[str, Any]) -> Guarantee:
    """The guarantee that a question may spend.

    Parameters
    ----------
    kind
        What is asked, whose settings a refusal names.
    guarantee
        The guarantee, or None where its parameters are given.
    given
        ``epsilon``, ``epsilon`` and ``delta``, ``rho``, or ``mu``.

    Examples
    --------
    >>> from discreet.questions.mean import MeanQuestion
    >>> spending(MeanQuestion, None, {"epsilon": 0.2, "delta": 1e-6})
    ApproxDP(epsilon=0.2, delta=1e-06)
    """
    for name in given:
        if name not in PARAMETERS:
            known = (*kind.settings(), "contribution", "request", *PARAMETERS)
            raise WrongType(name, given[name], f"is not a setting of {kind.ask}", spelling(name, known))
    if guarantee is None:
        made = KINDS.get(frozenset(given))
        if made is None:
            raise InvalidParameter(
                "guarantee",
                dict(given) or None,
                "must be given: epsilon, epsilon and delta, rho, or mu",
                "Pass epsilon=0.1, or a guarantee such as PureDP(0.1).",
            )
        found: Guarantee = made(**given)
        return found
    if given:
        raise InvalidParameter(
            "guarantee", guarantee, f"is given already, beside {', '.join(given)}", "Pass one of the two."
        )
    return guarantee
