"""The ledger: budget, reservation, durable record."""

from discreet.ledger.balance import Partition
from discreet.ledger.ledger import Ledger
from discreet.ledger.reservation import Reservation
from discreet.ledger.statement import Preview, Spend, Statement, Verification

__all__ = ["Ledger", "Partition", "Preview", "Reservation", "Spend", "Statement", "Verification"]
