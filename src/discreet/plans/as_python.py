"""As Python: the script and the notebook that say what a plan file says, and return its stored answers for free."""

from __future__ import annotations

import json
from typing import Any

from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Contribution
from discreet.plans.plan_file import PlanFile, PlannedQuestion

__all__ = ["command_lines", "notebook", "python_script"]


def python_script(file: PlanFile) -> str:
    """A script that asks the same questions of the same data under the same names.

    After the plan was run, the script returns the stored answers and spends nothing.
    """
    return "\n\n".join(_parts(file)) + "\n"


def notebook(file: PlanFile) -> str:
    """The same as a Jupyter notebook."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": f"# {file.title}"},
        *(
            {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": part}
            for part in _parts(file)
        ),
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
        indent=1,
        ensure_ascii=False,
    )


def command_lines(file: PlanFile) -> list[str]:
    """The commands that plan, review and run the file."""
    name = _shell(file.path.name)
    return [f"discreet {command} {name}" for command in ("plan", "review", "run")]


def _shell(word: str) -> str:
    plain = all(one.isalnum() or one in "._-/" for one in word)
    return word if plain and word and not word.startswith("-") else "'" + word.replace("'", "'\\''") + "'"


def _parts(file: PlanFile) -> list[str]:
    options = file.open_options()
    source = options.pop("source")
    opened = "".join(f",\n    {name}={value!r}" for name, value in options.items())
    session = (
        f"session = Session(\n    {source!r},\n    schema,\n    ledger={file.ledger!r},\n"
        f"    budget={_guarantee(file.budget)}{opened},\n)"
    )
    asked = [_question(file, one) for one in file.questions]
    names = sorted({word for word in _NAMES if any(f"{word}(" in text for text in (session, *asked))} | {"Session"})
    return [
        f"from discreet import {', '.join([*names, 'schema_from_dict'])}",
        f"schema = schema_from_dict({file.schema.to_dict()!r})",
        session,
        *asked,
    ]


_NAMES = ("ApproxDP", "Bounds", "Contribution", "GaussianDP", "PureDP", "ZeroConcentratedDP")


def _guarantee(guarantee: Guarantee) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in guarantee.parameters().items())
    return f"{type(guarantee).__name__}({given})"


def _question(file: PlanFile, planned: PlannedQuestion) -> str:
    settings = {name: _value(value) for name, value in planned.settings.items()}
    request = file.request(planned, 1)
    fixed = {"probabilities": "0.5"} if "probabilities" not in settings and planned.question.ask == "quantile" else {}
    settings |= fixed | {"guarantee": _guarantee(planned.question.guarantee), "request": repr(request)}
    lines = "".join(f"    {name}={value},\n" for name, value in settings.items())
    return f"# {_one_line(planned.title)}\nprint(session.{planned.question.ask}(\n{lines}))"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _value(value: Any) -> str:
    if isinstance(value, Bounds):
        return f"Bounds({value.low!r}, {value.high!r}, grid={value.grid!r})"
    if isinstance(value, Contribution):
        return f"Contribution({', '.join(f'{key}={one!r}' for key, one in value.to_dict().items())})"
    return repr(value)
