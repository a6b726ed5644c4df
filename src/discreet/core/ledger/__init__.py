"""The ledger: budget, reservation, durable record."""

from discreet.core.ledger.balance import Partition
from discreet.core.ledger.ledger import Ledger
from discreet.core.ledger.reservation import Reservation
from discreet.core.ledger.statement import Preview, Spend, Statement, Verification

__all__ = ["Ledger", "Partition", "Preview", "Reservation", "Spend", "Statement", "Verification"]
