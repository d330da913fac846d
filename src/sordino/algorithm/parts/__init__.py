"""The parts of a chain that every mechanism shares: noise, batches, start, kept iterates."""
