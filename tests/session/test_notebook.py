"""A real notebook, in an environment of its own that has what README's line installs, a kernel, and nothing else."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, output

KERNEL = """
import json, sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(cwd=sys.argv[2])
shown = []
def keep(message):
    content = message["content"]
    shown.append(content.get("text", "") + content.get("data", {}).get("text/plain", ""))
try:
    for cell in json.loads(sys.argv[1]):
        reply = client.execute_interactive(cell, timeout=600, output_hook=keep)["content"]
        if reply["status"] != "ok":
            sys.exit(f"{cell}: {reply['ename']}: {reply['evalue']}")
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print("".join(shown))
"""


@pytest.mark.deep
def test_the_first_statistic_of_the_readme_in_a_notebook(tmp_path: Path) -> None:
    """DuckDB looks for widgets where it finds a kernel, and refuses settings where there are none."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (extras,) = re.findall(r'^\$ pip install "\.(\[\w+\])"$', readme, re.MULTILINE)
    python = tmp_path / "env" / "bin" / "python"
    output([sys.executable, "-m", "venv", tmp_path / "env"])
    packages = subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}{extras}", "ipykernel"], check=False)
    if packages.returncode:
        pytest.skip("no index of packages to install from")
    first = readme.partition("## A first private statistic")[2].partition("```python")[2].partition("```")[0]
    cells = [one.source for one in doctest.DocTestParser().get_examples(first)]
    assert len(cells) > 4
    bare = "import importlib.util as found\nprint('widgets:', found.find_spec('ipywidgets'))"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "examples").symlink_to(ROOT / "examples")
    told = output([python, "-c", KERNEL, json.dumps([bare, *cells]), tmp_path / "work"], limit=1800.0)
    assert "widgets: None" in told
    assert "Mean age" in told
    assert "PureDP(epsilon=0.5)" in told
