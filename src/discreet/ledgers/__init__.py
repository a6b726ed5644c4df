"""Ledgers: how people open an account, look at it and approve plans in it."""

from discreet.core.ledger import Approvals, Partition, Reservation
from discreet.ledgers.ledger import Ledger
from discreet.ledgers.records import Preview, Spend, Statement, Verification

__all__ = ["Approvals", "Ledger", "Partition", "Preview", "Reservation", "Spend", "Statement", "Verification"]
