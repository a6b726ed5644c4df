"""Requirements on parameters: each function checks one rule once, at construction, and returns the clean value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from discreet.core.errors import InvalidParameter, WrongType

_LARGEST = 2**53


class Frozen(dict[Any, Any]):
    """A dict that stays as it is: what is declared must not change after noise was calibrated to it."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("declarations do not change. Declare the column again: schema.declaring(age=Bounds(0, 99)).")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)

    def __deepcopy__(self, memo: Any) -> Frozen:
        return self

    def __copy__(self) -> Frozen:
        return self


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise WrongType(name, value, "must be a real number", "Pass an int or a float.")
    try:
        return float(value)
    except OverflowError:
        raise InvalidParameter(name, value, "is too large for a 64-bit float", "Pass a number below 1e308.") from None


def finite(name: str, value: Any) -> float:
    """Return ``value`` as a float; refuse NaN, infinities and everything that is not a number."""
    number = _number(name, value)
    if not math.isfinite(number):
        raise InvalidParameter(name, value, "must be finite", "Replace NaN or infinity by a finite number.")
    return number


def positive(name: str, value: Any) -> float:
    """Return ``value`` as a float; refuse what is not finite and above zero."""
    number = finite(name, value)
    if number <= 0:
        raise InvalidParameter(name, value, "must be positive", f"Pass {name} > 0.")
    return number


def non_negative(name: str, value: Any) -> float:
    """Return ``value`` as a float; refuse what is not finite or is below zero."""
    number = finite(name, value)
    if number < 0:
        raise InvalidParameter(name, value, "must not be negative", f"Pass {name} ≥ 0.")
    return number


def probability(name: str, value: Any, *, below_one: bool = True) -> float:
    """Return ``value`` as a float in [0, 1), or in [0, 1] where ``below_one`` is false."""
    number = finite(name, value)
    if not 0 <= number <= 1 or (below_one and number == 1):
        interval = "[0, 1)" if below_one else "[0, 1]"
        per_cent = 1 < number <= 100
        fix = f"Write {number / 100:g} for {number:g} %." if per_cent else f"Pass a probability in {interval}."
        raise InvalidParameter(name, value, f"must lie in {interval}", fix)
    return number


def level(value: Any) -> float:
    """Return a confidence level in (0, 1)."""
    number = finite("level", value)
    if not 0 < number < 1:
        raise InvalidParameter("level", value, "must lie strictly between 0 and 1", "Pass 0.95 for a 95 % interval.")
    return number


def positive_integer(name: str, value: Any, *, at_least: int = 1) -> int:
    """Return ``value`` as an int of at least ``at_least`` that a float holds exactly."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise WrongType(name, value, "must be an integer", f"Pass a whole number of at least {at_least}.")
    number = int(value)
    if number < at_least:
        raise InvalidParameter(name, value, f"must be at least {at_least}", "Pass a larger number.")
    if number > _LARGEST:
        raise InvalidParameter(name, "…", "must be at most 2⁵³", "Pass a smaller number.")
    return number


def listed(name: str, value: Any, example: str) -> tuple[Any, ...]:
    """Return a list, tuple or row of an array as a tuple."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    return tuple(instance(name, plain, (list, tuple), example))


def one_of(name: str, value: Any, allowed: Sequence[str], fix: str | None = None) -> str:
    """Return ``value`` if it is one of these names."""
    if not isinstance(value, str) or value not in allowed:
        rule = f"must be one of {', '.join(map(repr, allowed))}"
        raise InvalidParameter(name, value, rule, fix or f'Pass {name}="{allowed[0]}", for example.')
    return value


def ordered_bounds(name: str, value: Any) -> tuple[float, float]:
    """Return ``(low, high)`` with low < high; either end may be infinite, but not both, and neither NaN."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise WrongType(name, value, "must be a pair (low, high)", f"Pass {name}=(0, 1), for example.")
    low, high = (_number(name, end) for end in value)
    if math.isnan(low) or math.isnan(high):
        raise InvalidParameter(name, value, "must not contain NaN", "Pass two numbers low < high.")
    if not low < high:
        raise InvalidParameter(name, value, "the lower end must be below the upper end", "Swap the two, or widen them.")
    if math.isinf(low) and math.isinf(high):
        raise InvalidParameter(name, value, "at least one end must be finite", "Give a finite end.")
    return low, high


def instance(name: str, value: Any, kind: type | tuple[type, ...], example: str) -> Any:
    """Return ``value`` if it is an instance of ``kind``; otherwise say what was expected."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(one.__name__ for one in kinds)
        raise WrongType(name, value, f"must be a {wanted}", f"Pass {example}.")
    return value


def words(name: str, value: Any) -> None:
    """Refuse what is no text for readers; nothing is said by empty text."""
    if not isinstance(value, str) or "\0" in value or value.isspace():
        raise WrongType(name, value, "must be text", f'Write {name} = "…", or leave it out.')


def rational(name: str, value: Any) -> Fraction:
    """Return ``value`` as an exact fraction; floats count as the exact binary number they are."""
    if isinstance(value, bool):
        raise WrongType(name, value, "must be a real number", "Pass an int, a float or a Fraction.")
    if isinstance(value, Fraction | Integral):
        return Fraction(value)
    return Fraction(finite(name, value))


def exact_positive(name: str, value: Any) -> Fraction:
    """Return a positive parameter as an exact fraction; a float counts as its binary value."""
    number = rational(name, value)
    positive(name, float(number))
    return number
