"""Posteriors and the chains that approach them: where the one is private and the other is not."""
