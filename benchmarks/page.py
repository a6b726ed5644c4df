"""Put the stored figures into the README and the comparison page: every table between its two marks.

`python benchmarks/page.py` rewrites both files from `results/`; nothing is measured.
"""

from __future__ import annotations

import re
from pathlib import Path

import accuracy
import compare
import features
import peer

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "comparison.md")


def tables() -> dict[str, str]:
    """Every table by the name in its mark."""
    found = peer.stored("features")
    return {
        "speed": compare.table(peer.stored("compare")["figures"]),
        "accuracy": accuracy.table(peer.stored("accuracy")),
        "short": features.table(found, features.SHORT),
        **{heading: features.table(found, rows) for heading, rows in features.ROWS.items()},
    }


def filled(text: str) -> str:
    """A page with its tables replaced by what is stored."""

    def table(mark: re.Match[str]) -> str:
        return f"<!-- table: {mark[1]} -->\n\n{tables()[mark[1]]}\n\n<!-- end -->"

    return re.sub(r"<!-- table: ([^>]+) -->.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the pages."""
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
