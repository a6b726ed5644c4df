"""What a released choice tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from discreet.core.display import Facts
from discreet.questions.modes import Mode
from discreet.releases import Release

__all__ = ["ModeRelease"]


@dataclass(frozen=True)
class ModeRelease(Release):
    """A released mode: its category, and how far behind the true mode it can be."""

    @property
    def mode(self) -> Any:
        """The chosen category."""
        return cast(Mode, self.statistic).categories[int(self.value)]

    def count_gap(self, level: float = 0.95) -> float:
        """With probability ``level`` no category has more than this many rows more than the chosen one.

        It holds for all data and is decided by the noise alone.
        """
        chooser: Any = getattr(self.mechanism, "inner", self.mechanism)  # behind an omission step, among the kept rows
        return float(chooser.score_loss(len(cast(Mode, self.statistic).categories), level))

    def facts(self) -> Facts:
        """What to show."""
        hidden = ("value", "95 % interval")
        rest = [fact for fact in super().facts() if fact[0] not in hidden]
        gap = f"no category has {self.count_gap():.3g} rows more, with probability 95 %"
        return [("mode", str(self.mode)), ("at most", gap), *rest]
