from importlib.metadata import version as installed_version

project = "discreet"
copyright = "the discreet authors"
release = version = installed_version("discreet")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = ["Guarantee"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "discreet"
html_static_path = ["_static"]
html_css_files = ["site.css"]
