"""Shifts: how cheaply two coupled chains can be brought together before anyone looks."""
