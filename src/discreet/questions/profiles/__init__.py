"""Profiles: what a data set holds, released from scratch: kinds, bounds, quartiles, missing and distinct values."""
