"""Choices: one of many candidates, or which of many groups to show."""
