"""Running: one run per plan at a time, beside the requests that ask how far it is."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from discreet.core.errors import DiscreetError
from discreet.plans.job import Job
from discreet.plans.job_results import JobResult, Progress
from discreet.plans.plan_file import PlanFile

__all__ = ["Run", "Running"]


@dataclass
class Run:
    """How far a run is; its refusal or its result once it has ended."""

    total: int
    done: int = 0
    name: str = ""
    refusal: str | None = None
    result: JobResult | None = None
    thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.refusal is not None or self.result is not None


class Running:
    """The runs of this studio, by plan. What was spent is in the ledger, so a run that is lost can be repeated free."""

    def __init__(self) -> None:
        self._runs: dict[Path, Run] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> Run | None:
        """The last run of a plan."""
        return self._runs.get(path)

    def start(self, file: PlanFile) -> Run:
        """Run a plan as it was read; the run that is under way where there is one."""
        with self._lock:
            known = self._runs.get(file.path)
            if known is not None and not known.ended:
                return known
            run = self._runs[file.path] = Run(total=len(file.questions))
            run.thread = threading.Thread(target=_carry_out, args=(run, file), daemon=True)
            run.thread.start()
            return run

    def forget(self, path: Path) -> None:
        """Forget a run that has ended."""
        with self._lock:
            known = self._runs.get(path)
            if known is not None and known.ended:
                del self._runs[path]


def _carry_out(run: Run, file: PlanFile) -> None:
    def progress(step: Progress) -> None:
        run.done, run.name = step.done, step.name

    try:
        run.result = Job(file).run(progress=progress)
    except DiscreetError as refusal:
        run.refusal = str(refusal)
    except Exception as failure:  # a page must not wait for ever; an unknown failure may quote a row, so only its kind
        run.refusal = (
            f"The run failed ({type(failure).__name__}). What was spent is in the ledger; run again to resume."
        )
