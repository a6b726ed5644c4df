"""Core: everything that must be right for a guarantee to hold. It imports no other room of discreet."""
