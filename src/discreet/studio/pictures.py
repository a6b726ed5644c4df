"""Pictures: small drawings as SVG. Colours are classes of the style sheet, so that they follow light and dark."""

from __future__ import annotations

import html
from collections.abc import Sequence

from discreet.display import printable

__all__ = ["budget_bar", "interval_sketch", "odds_picture", "unit_picture"]

_WIDTH = 320


def _svg(width: int, height: int, words: str, body: str) -> str:
    told = html.escape(printable(words))
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{told}" preserveAspectRatio="xMidYMid meet">'
        f"<title>{told}</title>{body}</svg>"
    )


def interval_sketch(low: float, high: float, centre: float, noise: float, both: float | None, words: str) -> str:
    """A number line with an expected value, the reach of the noise, and that of noise and chance together."""

    def at(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(10 + share * (_WIDTH - 20), 2)

    def bar(reach: float, kind: str, thick: int) -> str:
        left, right = at(centre - reach), at(centre + reach)
        width = max(right - left, 1.5)
        return f'<rect class="{kind}" x="{left:g}" y="{16 - thick / 2:g}" width="{width:g}" height="{thick}" rx="1.5"/>'

    body = f'<line class="axis" x1="10" y1="16" x2="{_WIDTH - 10}" y2="16"/>'
    body += "" if both is None else bar(both, "both-bar", 6)
    body += bar(noise, "noise-bar", 12)
    body += f'<circle class="dot" cx="{at(centre):g}" cy="16" r="3.5"/>'
    for value, anchor in ((low, "start"), (high, "end")):
        body += f'<text x="{at(value):g}" y="38" text-anchor="{anchor}">{html.escape(f"{value:,.4g}")}</text>'
    return _svg(_WIDTH, 42, words, body)


def budget_bar(parts: Sequence[tuple[str, float]], words: str) -> str:
    """The budget as a bar: what each release takes of it; a part beyond the whole is marked."""
    body, place = f'<rect class="rest" x="0" y="2" width="{_WIDTH}" height="20" rx="4"/>', 0.0
    whole = max(1.0, sum(share for _, share in parts))
    for number, (name, share) in enumerate(parts):
        width = share / whole * _WIDTH
        told = html.escape(f"{printable(name)}: {100 * share:.0f} % of the budget")
        over = " over" if place + share > 1 + 1e-9 else ""
        body += (
            f'<rect class="part part{number % 2}{over}" x="{place / whole * _WIDTH:g}" y="2" height="20" '
            f'width="{max(width - 1, 0.5):g}"><title>{told}</title></rect>'
        )
        place += share
    return _svg(_WIDTH, 24, words, body)


def unit_picture(rows_kept: int | None, of_a_column: bool) -> str:
    """Who is protected: single rows, or all rows of one person, of which some count."""
    body = ""
    people = [3, 1, 4] if of_a_column else [1] * 8
    place = 8.0
    for person, count in enumerate(people):
        wide = 26 * count
        if of_a_column or person == 2:
            chosen = " chosen" if person == 2 else ""
            body += f'<rect class="frame{chosen}" x="{place - 3:g}" y="5" width="{wide + 2:g}" height="40" rx="5"/>'
        for row in range(count):
            kept = not of_a_column or rows_kept is None or row < rows_kept
            kind = "row" if kept else "row dropped"
            body += f'<rect class="{kind}" x="{place + 26 * row:g}" y="10" width="20" height="30" rx="3"/>'
        place += wide + (14 if of_a_column else 8)
    words = (
        f"Each frame is one person with all their rows. At most {rows_kept} rows of each count; the others are dropped."
        if of_a_column and rows_kept is not None
        else "Each frame is one person with all their rows."
        if of_a_column
        else "Each row is protected by itself. Somebody with several rows is protected row by row only."
    )
    return _svg(290, 50, words, body)


def odds_picture(guessed: float, most: float, words: str) -> str:
    """How often an attacker is right, beside pure guessing and beside the most that the guarantee allows."""
    body = ""
    for line, (name, share, kind) in enumerate(
        (("guessing", 0.5, "rest"), ("this attacker", guessed, "noise-bar"), ("at most", most, "both-bar"))
    ):
        y = 4 + 26 * line
        body += f'<text x="0" y="{y + 14}">{name}</text>'
        body += f'<rect class="{kind}" x="96" y="{y}" width="{share * 170:g}" height="18" rx="2"/>'
        body += f'<text x="{102 + share * 170:g}" y="{y + 14}">{100 * share:.0f} %</text>'
    return _svg(_WIDTH, 82, words, body)
