"""Contract: what mechanisms and statistics offer to plans, inference and stored releases; the door needs less."""
