"""Mechanisms: how a value is protected, a slice each.

A mechanism's file holds its distribution, its privacy curve and its calibration, or names the file beside it that
does. The *Guarantee* section of its class states what holds and names the proof in ``docs/proofs/``;
`discreet.audit.catalogue` attacks it under its own name. Calibration is a search that nobody needs to trust: the *door*
(`discreet.core.door`, which every release passes) compares each claim with the mechanism's privacy curve.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
