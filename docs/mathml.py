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


_SIDES = (
    (re.compile(r"(\\[Bb]igg?)(?=\s*(?:\(|\[|\\\{))"), r"\1l"),
    (re.compile(r"(\\[Bb]igg?)(?=\s*(?:\)|\]|\\\}))"), r"\1r"),
    (re.compile(r"\\dots\b"), r"\\ldots"),
)
"""Commands that TeX knows and the converter does not: the same, said more precisely."""


def _mathml(node: nodes.Element, block: bool) -> str:
    text = node.astext()
    for command, precise in _SIDES:
        text = command.sub(precise, text)
    try:
        return tex2mathml(text, as_block=block)
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
