"""What algorithms in rounds share: rows on the device, the batch of each round, and the noise on its clipped sum."""
