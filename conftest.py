"""Noise in tests: reproducible, unless a test says that it needs the real thing and how often that fails it.

Every other test draws from a generator that is seeded with the test's own name, so a failure repeats. Tests marked
``@pytest.mark.false_failure(rate, why)`` get entropy from the operating system; ``tests/house/test_false_failures.py``
adds up their rates. Processes that a test forks or starts draw real noise; such tests compare no noisy value, or look
only for noise that comes twice.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.core.noise.sampler import SystemEntropy, Words

# Tests run Spark for a minute, in which a Java that optimises its code for hours only loses time: half of its work.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # this machine's own name may lead nowhere

OTHER_NOISE = os.environ.get("OTHER_NOISE", "")
"""Any text here gives every test another seed, to find those that pass with their own one only."""


_ROOM = re.compile(r"^tests/\w+/(?=test_)")
"""A test keeps its noise when its file moves to another room."""

SLOW = Path(__file__).parent / "tests" / "slow.txt"
"""Tests that take half a second or more, by name; ``pytest --durations=0`` tells them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick`` leaves out slow tests, Spark and servers: what `make check` runs."""
    parser.addoption("--quick", action="store_true", help="leave out slow tests, Spark and servers")


def rate(item: pytest.Item) -> float | None:
    """The stated rate at which a test fails although nothing is wrong; None for a test on reproducible noise."""
    marker = item.get_closest_marker("false_failure")
    return None if marker is None else float(marker.args[0])


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests of Spark on one worker, which starts it once; skip them, in words, where it is not installed."""
    if config.getoption("--quick"):
        slow = set(SLOW.read_text(encoding="utf-8").split("\n"))
        out = [one for one in items if one.nodeid.split("[")[0] in slow or one.get_closest_marker("spark")]
        left_out = set(out)
        items[:] = [one for one in items if one not in left_out]
        config.hook.pytest_deselected(items=out)
    missing = importlib.util.find_spec("pyspark") is None
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
            if missing:
                item.add_marker(pytest.mark.skip(reason="needs pyspark: pip install 'discreet[spark]'"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Seed the noise of a test and of its fixtures."""
    if rate(item) is not None:
        yield
        return
    group = item.get_closest_marker("xdist_group")
    name = item.nodeid if group is None else item.nodeid.removesuffix(f"@{group.args[0]}")  # which xdist appends
    with reproducible(OTHER_NOISE + _ROOM.sub("tests/", name)):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed a fixture that several tests share with its own name: which of them comes first depends on the workers."""
    if fixturedef.scope == "function":
        yield
        return
    with reproducible(
        f"{OTHER_NOISE}{_ROOM.sub('tests/', fixturedef.baseid)}::{fixturedef.argname} {getattr(request, 'param', '')!r}"
    ):
        yield


@contextmanager
def reproducible(name: str) -> Iterator[None]:
    """Draw everything that is random in this process from generators that the name seeds."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16])
    generator, owner = np.random.Generator(np.random.Philox(key=seed)), os.getpid()
    simulations = np.random.SeedSequence(seed)

    def ours(real: Callable[..., Any], seeded: Callable[..., Any]) -> Callable[..., Any]:
        """The seeded function; in forks the real one, since a copy of the generator draws what its parent draws."""
        return lambda *given: (seeded if os.getpid() == owner else real)(*given)

    def words(_: SystemEntropy, count: int) -> Words:
        return generator.integers(0, 2**64, count, dtype=np.uint64)

    fresh = np.random.default_rng

    def simulated(given: Any = None) -> np.random.Generator:
        return fresh(simulations.spawn(1)[0] if given is None else given)

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (SystemEntropy, "words", words),
        (np.random, "default_rng", simulated),
        # Identifiers of releases seed the simulations of tests; a ledger's salt decides which rows a unit keeps.
        (uuid, "uuid4", lambda: uuid.UUID(bytes=generator.bytes(16), version=4)),
        (secrets, "token_hex", lambda size: generator.bytes(size).hex()),
        (secrets, "randbelow", lambda count: int(generator.integers(count))),
        (secrets, "randbits", lambda count: int.from_bytes(generator.bytes(count // 8 + 1)) % 2**count),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for place, function, seeded in replaced:
            patch.setattr(place, function, ours(getattr(place, function), seeded))
        yield
