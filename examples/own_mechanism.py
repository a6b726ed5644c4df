"""A mechanism of one's own, checked by the kit that discreet's own mechanisms pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from discreet import PureDP
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Laplace
from discreet.testing import check_mechanism


@dataclass(frozen=True, kw_only=True)
class Careless(Laplace):
    """Laplace noise that claims twice the privacy it gives."""

    name: ClassVar[str] = "careless"

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """Half of what really holds."""
        return PureDP(sensitivity.require_l1() / self.scale / 2)


def main() -> None:
    """The right one passes, the careless one is found out."""
    unit = Sensitivity(l1=1.0)
    print(check_mechanism(Laplace(scale=2.0), unit))
    try:
        check_mechanism(Careless(scale=2.0), unit)
    except AssertionError as found:
        print(f"found out: {found}")


if __name__ == "__main__":
    main()
