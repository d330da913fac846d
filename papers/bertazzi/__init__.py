"""Bertazzi, Jourdan, Roy and Durmus: Langevin and SGD without convexity."""
