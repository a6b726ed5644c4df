"""Noise on tables, and what can be made of it afterwards."""
