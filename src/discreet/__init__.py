"""discreet: statistics about people, under differential privacy."""
