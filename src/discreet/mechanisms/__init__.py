"""Mechanisms: how a value is protected."""
