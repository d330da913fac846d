"""Random participation: in which steps a record takes part, and what follows for two coupled chains."""
