"""Profiles: the exact privacy curve of a mechanism for one sensitivity."""

from discreet.profiles.profile import GaussianProfile, LaplaceProfile, Profile

__all__ = ["GaussianProfile", "LaplaceProfile", "Profile"]
