"""Private variational inference for models of one's own."""
