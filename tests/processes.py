"""Programs that tests start: each ends within its time, with all that it started, or fails with what it said."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 300.0
"""Seconds until a program counts as hanging: many times what any of them takes on a busy machine."""


def started(command: Sequence[str | Path], **options: object) -> "subprocess.Popen[str]":
    """A program in a process group of its own, whose output is read; `told` ends it."""
    settings = {"cwd": ROOT, "stdin": subprocess.DEVNULL, **options}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **settings
    )


def told(
    program: "subprocess.Popen[str]", *, given: str | None = None, status: int = 0, limit: float = LIMIT
) -> tuple[str, str]:
    """What a program said until its end, on both streams; the test fails where it ends otherwise or not at all."""
    try:
        out, err = program.communicate(given, timeout=limit)
    except BaseException as stopped:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        out, err = program.communicate()
        if not isinstance(stopped, subprocess.TimeoutExpired):
            raise
        raise AssertionError(f"not done after {limit:g} s: {program.args}\n{out}\n{err}") from None
    assert program.returncode == status, f"ended with {program.returncode}: {program.args}\n{out}\n{err}"
    return out, err


def output(command: Sequence[str | Path], *, status: int = 0, limit: float = LIMIT, **options: object) -> str:
    """What a program prints until it ends as it should."""
    return told(started(command, **options), status=status, limit=limit)[0]
