"""Langevin chains without convexity: drifts of which only the data-free part contracts."""
