"""The ledger: budget, reservation, durable record."""
