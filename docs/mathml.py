"""Formulas as MathML: browsers draw them by themselves, so the pages run no script and fetch nothing from others."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)


_PRECISE = (
    (re.compile(r"\\([td]?)frac\s*(\d)"), r"\\\1frac{\2}"),
    (re.compile(r"(\\[td]?frac\{\d\})\s*(\d)"), r"\1{\2}"),
    (re.compile(r"(\\[Bb]igg?)(?=\s*(?:\(|\[|\\\{))"), r"\1l"),
    (re.compile(r"(\\[Bb]igg?)(?=\s*(?:\)|\]|\\\}))"), r"\1r"),
    (re.compile(r"\\dots\b"), r"\\ldots"),
)
"""What TeX reads and the converter does not, or reads otherwise: it takes the 12 of ``\\frac12`` for one number."""


def mathml_of(formula: str, *, block: bool = False) -> str:
    """A formula of TeX as MathML; MathError where the converter does not know it."""
    for command, precise in _PRECISE:
        formula = command.sub(precise, formula)
    return tex2mathml(formula, as_block=block)


def _mathml(node: nodes.Element, block: bool) -> str:
    try:
        return mathml_of(node.astext(), block=block)
    except MathError as unknown:
        _LOGGER.warning("formula %r: %s", node.astext(), unknown, location=node)
        return ""


def _inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.Element) -> None:
    translator.body.append(f'<div class="math">{_mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; ``html_math_renderer = "mathml"`` chooses it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
