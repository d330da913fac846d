"""The variational task every library runs: an 8-50-1 network, independent Gaussians, batches of 100. Needs NumPy only.

One draw of the weights a step, shared by the batch; gradients in means and log deviations stacked, clipped to norm 1,
noised; plain gradient steps. Timed like `task`: CPU seconds of one core.
"""

import numpy as np

ROWS, FEATURES, HIDDEN, BATCH = 7373, 8, 50, 100
STEP_SIZE, CLIP_NORM, NOISE_MULTIPLIER = 0.05, 1.0, 1.0
FIRST_DEVIATION = 0.05
SIZE = FEATURES * HIDDEN + HIDDEN + HIDDEN + 1


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, FEATURES)).astype(np.float32)
    return X, np.tanh(X[:, 0] + X[:, 1]).astype(np.float32)


def error(means: np.ndarray) -> float:
    """Root mean square error of the network at the means, to see that a run has learnt what the others have."""
    X, y = data()
    parts = np.split(np.ravel(means), np.cumsum([FEATURES * HIDDEN, HIDDEN, HIDDEN]))
    hidden = np.tanh(X @ parts[0].reshape(FEATURES, HIDDEN) + parts[1])
    return float(np.sqrt(np.mean((hidden @ parts[2] + parts[3] - y) ** 2)))
