"""Mechanisms: what sees private rows. Each releases noised sums and nothing else."""
