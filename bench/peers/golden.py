"""The accounting task: epsilon of the Poisson-sampled Gaussian with a two-sided bracket. Plain numbers, no imports."""

RATE, MULTIPLIER, DELTA = 0.01, 1.0, 1e-5
STEPS = 1000
WIDTHS = (1e-2, 1e-3)  # relative width of the bracket, the same for everyone
REPETITIONS = 3
