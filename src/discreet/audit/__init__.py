"""Audit: every guarantee attacked before it is trusted. Names are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "audit_draws": "statistical", "audit_exactly": "exact_losses", "audit_choices": "exact_losses",
    "audit_laws": "exact_losses", "audit_exhaustively": "exact_losses", "audit_hostile": "hostile",
    "audit_pair": "statistical", "audit_repetition": "statistical", "audit_replay": "replay",
    "audit_spending": "tampering", "audit_timing": "statistical", "run_audit": "run",
}  # fmt: skip

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'discreet.audit' has no attribute {name!r}")
    return getattr(import_module(f"discreet.audit.{_PUBLIC[name]}"), name)
