"""The ledger: budget, reservation, durable record."""

from discreet.core.ledger.approval import Approvals
from discreet.core.ledger.ledger import Ledger
from discreet.core.ledger.partition import Partition
from discreet.core.ledger.records import Preview, Reservation, Spend, Statement, Verification

__all__ = ["Approvals", "Ledger", "Partition", "Preview", "Reservation", "Spend", "Statement", "Verification"]
