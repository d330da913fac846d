"""Figures and pages for people, made from stored values; nothing is run."""
