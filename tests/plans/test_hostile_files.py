"""Plans, bundles and ledgers that somebody damaged or made up: refused in words, never with a traceback."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet import Bounds, Ledger, PureDP, Schema, Session
from discreet.core.errors import DiscreetError, SourceError
from discreet.core.ledger.journal import ROOT, chained
from discreet.plans.bundle import signed_content, verify_bundle, write_bundle
from discreet.plans.job import Job
from discreet.questions import asked
from tests.processes import ROOT as HERE

TEXTS = [
    "",
    "\0",
    "\x1b[2J",
    "<script>",
    "é" * 400,
    "9" * 4400,
    "1e999",
    "nan",
    "-inf",
    "../" * 40,
    "{" * 3000,
    "'" * 9,
]
VALUES = [None, True, -1, 0, 2**63, 10**400, 1e308, 5e-324, [], {}, [[]], {"": {}}, *TEXTS]


def changed_text(text: str, chance: random.Random) -> str:
    """The text with a piece of it cut out, doubled, moved, or replaced by something that does not belong there."""
    start, length = chance.randrange(len(text)), chance.choice((1, 1, 3, 10, 80))
    piece = text[start : start + length]
    put = chance.choice(
        ["", piece * 2, piece[::-1], chance.choice(TEXTS), "[" * 500, "=", "\n", "1" * 5000, "0x" + "f" * 5000]
    )
    return text[:start] + put + text[start + length :]


NUMBERS = ["0", "1", "-1", "2", "7.5", "0.1", "1e-300", "1e308", "inf", "nan", "1e6", "9007199254740993", "true"]
WORDS = [
    *asked(),
    "median",
    "age",
    "region",
    "satisfied",
    "survey.csv",
    "north",
    "yes",
    "age\\u001b[2J",
    "<b>|x",
    "",
]
SETTINGS = [
    *(f"{name} = {{}}" for name in ("share", "epsilon", "rows", "size", "grid", "interval", "times", "quality")),
    *(f'{name} = "{{}}"' for name in ("column", "by", "columns", "title", "period", "value", "where", "neighbours")),
    'columns = ["{}", "age"]', 'by = ["{}", "region"]', 'labels = ["{}", "x"]', "[scenario]", "[output]", "[ledger]",
]  # fmt: skip


def changed_setting(text: str, chance: random.Random) -> str:
    """A plan with another value in one of its lines, a line less, or a line more: most of it still makes sense."""
    lines = text.splitlines()
    place, kind = chance.randrange(len(lines)), chance.choice(["value", "value", "value", "less", "more"])
    name, sign, value = lines[place].partition(" = ")
    if kind == "more":
        lines.insert(place, chance.choice(SETTINGS).format(chance.choice([*NUMBERS, *WORDS])))
    elif kind == "less":
        del lines[place]
    elif sign:
        word = chance.choice([one for one in WORDS if name != "ask" or one in WORDS[:-9]])
        lines[place] = f'{name} = "{word}"' if value.startswith('"') else f"{name} = {chance.choice(NUMBERS)}"
    return "\n".join([*lines, ""])


def changed_value(value: Any, chance: random.Random) -> Any:
    """JSON data with one value in it, at any depth, replaced by another."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: one for name, one in value.items() if name != key}
        return value | {key: changed_value(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], changed_value(value[place], chance), *value[place + 1 :]]
    return chance.choice(VALUES)


def changed_bundle(bundle: Any, chance: random.Random) -> Any:
    """A bundle with one value in it replaced; half of them signed again, by somebody who wants to be believed."""
    changed = changed_value(bundle, chance)
    if chance.random() < 0.5 and isinstance(changed, dict) and isinstance(changed.get("signed"), dict):
        key = Ed25519PrivateKey.generate()
        changed["signed"] = {"by": "officer", "key": key.public_key().public_bytes_raw().hex()}
        changed["signature"] = key.sign(signed_content(changed)).hex()
    return changed


def published(folder: Path) -> Path:
    """A plan that was run, its ledger, and a bundle of both."""
    for name in ("survey.csv", "survey.toml"):
        shutil.copy(HERE / "examples" / name, folder)
    Job(folder / "survey.toml").run()
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    write_bundle(folder / "survey.toml", folder / "survey.bundle", by="officer", public=public, sign=key.sign)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("hostile"))


SIZES = [40, pytest.param(1000, marks=pytest.mark.deep)]


@pytest.mark.parametrize("number", [150, pytest.param(3000, marks=pytest.mark.deep)])
def test_changed_plans_are_planned_or_refused(made: Path, tmp_path: Path, number: int) -> None:
    text, chance = (made / "survey.toml").read_text(), random.Random(1)
    for _ in range(number):
        changed = text
        for _ in range(chance.randint(1, 3)):
            changed = changed_text(changed, chance)
        (tmp_path / "plan.toml").write_text(changed, encoding="utf-8", errors="replace")
        with suppress(DiscreetError):
            Job(tmp_path / "plan.toml").plan(rehearse=False)


@pytest.mark.parametrize("number", SIZES)
def test_changed_bundles_are_refused_or_verified(made: Path, tmp_path: Path, number: int) -> None:
    bundle, chance = json.loads((made / "survey.bundle").read_text()), random.Random(2)
    for _ in range(number):
        (tmp_path / "a.bundle").write_text(json.dumps(changed_bundle(bundle, chance)))
        verify_bundle(tmp_path / "a.bundle")


@pytest.mark.parametrize("number", SIZES)
def test_changed_ledgers_are_refused_or_used(made: Path, tmp_path: Path, number: int) -> None:
    """Hashes that fit, as somebody makes them who knows the format; or bytes at random."""
    (ledger,) = made.glob("*.ledger")
    header, *lines = ledger.read_text().splitlines()
    split, chance = [line.split(" ", 2) for line in lines], random.Random(3)
    for _ in range(number):
        place, before, written = chance.randrange(len(split)), ROOT, [header]
        for seq, (_, kind, body) in enumerate(split, start=1):
            if seq == place + 1:
                body = json.dumps(changed_value(json.loads(body), chance), sort_keys=True, separators=(",", ":"))
            before = chained(before, seq, kind, body)
            written.append(f"{before} {kind} {body}")
        text = "\n".join([*written, ""])
        target = tmp_path / "a.ledger"
        target.write_text(changed_text(text, chance) if chance.random() < 0.3 else text, errors="replace")
        with suppress(DiscreetError), Ledger(target, read_only=True) as opened:
            opened.verify()
            str(opened)


@pytest.mark.parametrize("name", ["[" * 500 + ".csv", "x" * 300 + ".parquet", "a\0b.csv"])
def test_names_that_no_file_can_have_are_no_files(name):
    schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    with pytest.raises(SourceError, match="there is no such file"):
        Session(name, schema, ledger=":memory:", budget=PureDP(1.0)).count(epsilon=1.0)
