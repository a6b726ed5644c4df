"""No calibrated scale is weaker than its claim: a cut of `benchmarks/rounding_check.py`, which runs 12,000."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import mpmath
import pytest

from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP

PATH = Path(__file__).parents[2] / "benchmarks" / "rounding_check.py"


@pytest.fixture(scope="module")
def rounding_check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rounding_check", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_violation_in_1500_settings(rounding_check: ModuleType) -> None:
    seen, broken = rounding_check.check(1500, seed=7)
    assert seen.total() == 1500
    assert len(seen) == 11
    assert broken.total() == 0


@pytest.mark.parametrize(
    ("weaker", "guarantee", "scale"),
    [
        ("laplace_is_weaker", PureDP(1.0), 1.0),
        ("laplace_is_weaker", ApproxDP(1.0, 0.01), 0.9802954039101189),
        ("gaussian_is_weaker", GaussianDP(0.5), 2.0),
        ("gaussian_is_weaker", ZeroConcentratedDP(0.5), 1.0),
        ("table_is_weaker", PureDP(1.0), 2.0),
    ],
)
def test_the_check_sees_one_unit_in_the_last_place(
    rounding_check: ModuleType, weaker: str, guarantee: object, scale: float
) -> None:
    is_weaker = getattr(rounding_check, weaker)
    with mpmath.workdps(50):
        assert not is_weaker(guarantee, scale, 1.0)
        assert is_weaker(guarantee, math.nextafter(math.nextafter(scale, 0.0), 0.0), 1.0)
