"""Audits of laws that are known exactly: nothing is sampled, so the confidence is 1."""
