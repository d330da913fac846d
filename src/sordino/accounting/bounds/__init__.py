"""Mathematics that several theorems share: shifts, moduli, and what random participation hides."""
