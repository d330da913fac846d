"""Accounting: what a described run costs in privacy. NumPy float64 only; it never sees data."""
