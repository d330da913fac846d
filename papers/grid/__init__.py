"""Which theorem wins where: a published grid of runs, not of any one paper."""
