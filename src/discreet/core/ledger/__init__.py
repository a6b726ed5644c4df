"""The ledger: budget, reservation, durable record."""

from discreet.core.ledger.account import Account, Reservation
from discreet.core.ledger.balance import Approvals, Partition

__all__ = ["Account", "Approvals", "Partition", "Reservation"]
