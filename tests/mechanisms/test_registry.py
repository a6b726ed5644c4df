"""Registries: a name that releases are stored under keeps its meaning."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from discreet.core.errors import InvalidParameter
from discreet.mechanisms import Laplace
from discreet.mechanisms.mechanism import Registry, mechanism_from_dict
from tests.processes import output

STORED = {"name": "laplace", "scale": 2.0, "grid": None}


def _impostor() -> type[Laplace]:
    @dataclass(frozen=True)
    class Quiet(Laplace):
        name: ClassVar[str] = "laplace"

    return Quiet


def test_a_second_class_under_a_known_name_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"already names the mechanism discreet.mechanisms.laplace.Laplace"):
        _impostor()
    assert type(mechanism_from_dict(STORED)) is Laplace


def test_it_is_refused_before_the_own_class_was_imported() -> None:
    script = """
from discreet.mechanisms.mechanism import Mechanism
try:
    type("Quiet", (Mechanism,), {"name": "laplace"})
except ValueError as error:
    print(error)
from discreet.mechanisms.laplace import Laplace
"""
    assert output([sys.executable, "-c", script]).startswith("name = 'laplace': already names the mechanism")


def test_the_same_class_may_come_again() -> None:
    registry: Registry[object] = Registry("thing")
    for _ in range(2):
        made = type("Thing", (), {"name": "thing"})
        registry.add(made)
        assert registry.read({"name": "thing"}).__class__ is made


def test_a_class_without_a_name_of_its_own_is_a_base() -> None:
    registry: Registry[object] = Registry("thing")
    registry.add(type("Base", (), {}))
    assert registry.classes() == {}
