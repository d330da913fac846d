"""A kernel for NVIDIA devices that keeps a model on one multiprocessor for a whole epoch."""
