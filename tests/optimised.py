"""Runs scripts under ``python -O``, which removes every assert: what must hold there has to be raised."""

import subprocess
import sys
from textwrap import dedent

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
    command = [sys.executable, "-O", "-c", HEAD + dedent(script)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise AssertionError(run.stderr)
    return run.stdout
