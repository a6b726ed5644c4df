"""The house: rules about the source itself."""

from collections import Counter
from pathlib import Path

import discreet

SOURCE = Path(discreet.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def test_no_two_files_share_a_name() -> None:
    names = Counter(file.name for file in FILES if file.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []
