"""The pictures of the README and of the documentation, drawn from real output. Run it with ``make pictures``.

The survey is made up and its noise is fresh: a new run gives other numbers. The screenshot of the demonstration's
report needs Chromium.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import vl_convert

from discreet import Bounds, PureDP, Schema, Session

STATIC = Path(__file__).parent / "_static"
EXAMPLES = Path(__file__).parents[1] / "examples"
EPSILONS = (0.03, 0.1, 0.3, 1.0)
ROWS = 4000
NOISE, BOTH, INK = "#0b5cad", "#b4530a", "#16191d"


def releases() -> tuple[list[dict[str, Any]], float]:
    """One mean at several guarantees, with both of its intervals; and the mean of the rows."""
    rng = np.random.default_rng(7)
    age = np.clip(np.round(rng.normal(46, 16, ROWS)), 18, 100)
    schema = Schema(columns={"age": Bounds(18, 100, grid=1)})
    session = Session(pa.table({"age": age}), schema, ledger=":memory:", budget=PureDP(10.0))
    rows = []
    for epsilon in EPSILONS:
        answer = session.mean("age", epsilon=epsilon, variance=True)
        noise, both = answer.noise_interval(0.95), answer.population_interval(0.95)
        rows.append(
            {
                "guarantee": f"ε = {epsilon:g}",
                "estimate": answer.mean,
                "low": noise.low,
                "high": noise.high,
                "wide_low": both.low,
                "wide_high": both.high,
            }
        )
    return rows, float(age.mean())


def intervals(rows: list[dict[str, Any]], truth: float) -> Any:
    """The chart: what noise hides, and what noise and sampling hide together."""
    data = alt.InlineData(values=rows)
    y = alt.Y(field="guarantee", type="nominal", title=None, sort=None, axis=alt.Axis(labelFontSize=13))
    scale = alt.Scale(zero=False, nice=False, padding=10)
    title = f"mean age of {ROWS:,} people, with 95 % intervals"

    def x(field: str) -> alt.X:
        axis = alt.Axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", tickCount=6)
        return alt.X(field=field, type="quantitative", title=title, scale=scale, axis=axis)

    base = alt.Chart(data)
    wide = base.mark_rule(color=BOTH, strokeWidth=3).encode(y=y, x=x("wide_low"), x2=alt.X2(field="wide_high"))
    thick = base.mark_rule(color=NOISE, strokeWidth=9, opacity=0.8)
    dot = base.mark_point(color=INK, filled=True, size=70, opacity=1).encode(y=y, x=x("estimate"))
    line = alt.Chart(alt.InlineData(values=[{"truth": truth, "words": "the rows' own mean (private)"}]))
    rule = line.mark_rule(color=INK, strokeDash=[4, 4]).encode(x=x("truth"))
    words = line.mark_text(align="left", dx=5, y=-6, color=INK, fontSize=12)
    return alt.layer(
        wide,
        thick.encode(y=y, x=x("low"), x2=alt.X2(field="high")),
        dot,
        rule,
        words.encode(x=x("truth"), text=alt.Text(field="words", type="nominal")),
    ).properties(
        width=330,  # a phone shows it as it is, a desk larger
        height=140,
        background="white",
        title=alt.TitleParams(
            ["Thick blue: what the noise hides.", "Thin amber: noise and sampling together."],
            fontSize=12,
            fontWeight="normal",
            anchor="start",
            offset=8,
        ),
    )


def screenshot() -> None:
    """The first part of the demonstration's report as PNG."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed; the picture of the report stays as it is", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, EXAMPLES / "demo.py", "--directory", directory], check=True, stdout=sys.stderr)
        [page] = Path(directory).glob("*/clicks-report/report.html")
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                f"--user-data-dir={directory}/profile", "--window-size=900,2240", "--force-device-scale-factor=0.8",
                f"--screenshot={STATIC}/report.png", page.as_uri(),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip


def growth() -> Any:
    """The chart: processor time and memory by the number of rows, as the benchmark of rows found them."""
    stored = json.loads((EXAMPLES.parent / "benchmarks" / "results" / "rows.json").read_text(encoding="utf-8"))
    shown = {
        "plain group-by (s)": "the engine's own group-by", "first question (s)": "first question",
        "ten questions (s)": "ten questions",
    }  # fmt: skip
    rows = []
    for name, value in stored.items():
        size, _, what = name.partition(" rows: ")
        if what in shown or what == "peak memory (GB)":
            millions = int(size.replace(",", "")) / 1e6
            rows.append({"millions": millions, "value": value, "what": shown.get(what, "peak memory")})
    data = alt.InlineData(values=rows)
    axis = alt.Axis(values=sorted({row["millions"] for row in rows}))
    x = alt.X(
        field="millions", type="quantitative", title="million rows", scale=alt.Scale(type="log", nice=False), axis=axis
    )

    def panel(chosen: str, title: str, kind: str, legend: Any) -> Any:
        y = alt.Y(field="value", type="quantitative", title=title, scale=alt.Scale(type=kind, zero=kind == "linear"))
        colour = alt.Color(
            field="what", type="nominal", title=None, scale=alt.Scale(range=[INK, NOISE, BOTH]), legend=legend
        )
        chart = alt.Chart(data).transform_filter(chosen).mark_line(point=True)
        return chart.encode(x=x, y=y, color=colour).properties(width=250, height=200)

    time = panel("datum.what != 'peak memory'", "processor seconds", "log", alt.Legend(orient="bottom", columns=1))
    memory = panel("datum.what == 'peak memory'", "gigabytes at the peak, ten questions", "linear", None)
    return alt.hconcat(time, memory, background="white").resolve_scale(color="independent")


def main() -> None:
    """Draw everything again."""
    STATIC.mkdir(exist_ok=True)
    rows, truth = releases()
    svg = vl_convert.vegalite_to_svg(intervals(rows, truth).to_dict())
    (STATIC / "intervals.svg").write_text(svg, encoding="utf-8")
    (STATIC / "intervals.png").write_bytes(vl_convert.svg_to_png(svg, scale=2))
    (STATIC / "growth.svg").write_text(vl_convert.vegalite_to_svg(growth().to_dict()), encoding="utf-8")
    screenshot()


if __name__ == "__main__":
    main()
