"""Noise that stays inside public bounds."""
