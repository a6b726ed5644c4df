"""Runs scripts under ``python -O``, which removes every assert: what must hold there has to be raised."""

import sys
from textwrap import dedent

from tests.processes import output

HEAD = """
import sys
assert False, "this interpreter keeps asserts"
def expect(kind, call):
    try:
        call()
    except kind as error:
        print(error)
    else:
        sys.exit("nothing was raised")
"""


def run_optimised(script: str) -> str:
    """What the script prints; it may use ``expect(kind, call)``, which fails where nothing is raised."""
    return output([sys.executable, "-O", "-c", HEAD + dedent(script)])
