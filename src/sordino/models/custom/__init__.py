"""Models of one's own: what a fit needs to know of a NumPyro model or of a loss on a pytree."""
