"""A published grid of several hundred runs on which theorems, and other people's accountants, are compared."""
