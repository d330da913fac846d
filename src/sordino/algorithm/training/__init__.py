"""Training of networks: gradients clipped example by example, noised sums of them, and any optimiser after the noise."""
