"""Training of networks: gradients clipped one by one, noised sums of them, and any optimiser after the noise."""
