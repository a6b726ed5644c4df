import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # mathml.py, stored_studies.py
import stored_studies
from packaging.version import Version
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle

project = "discreet"
copyright = "the discreet authors"
release = version = installed_version("discreet")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "mathml",
    "sphinxcontrib.bibtex",
    "sphinx_copybutton",
]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
add_module_names = False
napoleon_google_docstring = False
napoleon_custom_sections = ["Guarantee"]
exclude_patterns = ["_build", "decisions"]


class _Keys(BaseLabelStyle):
    """References are listed by the keys that code and proofs use."""

    def format_labels(self, entries):
        return [entry.key for entry in entries]


class _ByKey(Style):
    default_label_style = _Keys


register_plugin("pybtex.style.formatting", "by_key", _ByKey)
bibtex_bibfiles = ["papers/references.bib"]
bibtex_default_style = "by_key"


def _with_contents(app, docname, source):
    """The gallery is written by `discreet reproduce`, which knows nothing of this site: its studies are listed here."""
    if docname == "studies/index" and "{toctree}" not in source[0]:
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*/*\n```\n"


_BARS = re.compile(r"(?<![\w`|\\])\|(?=[^\s|][^|]*\|)")


def _with_bars(app, what, name, obj, options, lines):
    """|x| is an absolute value in our docstrings; reStructuredText would look for a substitution of that name."""
    lines[:] = ["``".join(_barred(line.split("``"))) for line in lines]


def _barred(parts):
    """Every second part is code, and stays as it is."""
    return [part if place % 2 else _BARS.sub(r"\\|", part) for place, part in enumerate(parts)]


def _with_figures(app):
    """Figures of studies are not stored: they are drawn from the rows."""
    stored_studies.draw()


_HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'


def _with_versions(app, exception):
    """Versions lie side by side, and beside them a page that leads to the newest and one that lists them all."""
    site = Path(app.outdir).parent
    if Path(app.outdir).name != version:  # built elsewhere, to look at
        return
    versions = sorted((page.parent.name for page in site.glob("*/index.html")), key=Version, reverse=True)
    links = "".join(f'<li><a href="{one}/index.html">{one}</a></li>' for one in versions)
    listed = f"{_HEAD}<title>discreet</title><h1>discreet</h1><p>Documentation of version</p><ul>{links}</ul></html>"
    leads = f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html"><title>'
    (site / "versions.html").write_text(listed, encoding="utf-8")
    (site / "index.html").write_text(listed.replace("<title>", leads), encoding="utf-8")


def setup(app):
    app.connect("build-finished", _with_versions)
    app.connect("builder-inited", _with_figures)
    app.connect("autodoc-process-docstring", _with_bars)
    app.connect("source-read", _with_contents)


html_theme = "furo"
html_title = f"discreet {version}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"font-stack": "system-ui, sans-serif", "color-brand-primary": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7db8ff"},
}
