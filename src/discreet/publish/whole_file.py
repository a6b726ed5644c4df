"""Whole file: write all of a file or nothing of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from discreet.core.errors import DiscreetError

__all__ = ["write_new", "write_whole"]


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file, flushed, in one step: a reader sees the old content or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def write_new(path: Path, text: str) -> None:
    """Write a file that must not be there yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise DiscreetError(f"out = {str(path)!r}: exists already. Choose another name.") from None
    except OSError as failure:
        raise DiscreetError(
            f"out = {str(path)!r}: cannot be written ({type(failure).__name__}). Choose another name."
        ) from None
