"""Section 5 of Simsekli et al.: what its two figures share."""
