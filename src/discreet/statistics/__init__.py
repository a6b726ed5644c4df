"""Statistics: what is measured, with its public domain and its sensitivity."""
