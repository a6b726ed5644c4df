"""The ledger: budget, reservation, durable record."""

from discreet.core.ledger.account import Account, Reservation
from discreet.core.ledger.approval import Approvals
from discreet.core.ledger.balance import Partition

__all__ = ["Account", "Approvals", "Partition", "Reservation"]
