"""Client-level privacy with a fixed number of sampled clients: what is often stated, and a counterexample.

    python examples/flower/client_level.py

A server draws m of n clients, averages their clipped updates and adds Gaussian noise of C / m times a multiplier. If
the number of sampled clients is fixed, neighbours are tables in which one client is replaced, and the mean of m moves
by 2 C / m, not by C / m. Multiplier 1, one round, delta 1e-5: an accountant that takes C / m says epsilon 4.73; the
truth is 6.58 if a tenth of the clients is sampled. The hunter shows the same mistake at multiplier 2 with all clients.
"""

import sys

import numpy as np

import sordino
from sordino.accounting import dp_sgd

CLIENTS, SAMPLED, CLIP, MULTIPLIER = 5, 5, 1.0, 2.0
CLAIM = {
    "epsilon": 2.0,
    "delta": 1e-5,
    "relation": "replace-one",
    "domain": {"records": {"low": -CLIP, "high": CLIP}, "size": [CLIENTS, CLIENTS]},
    "arithmetic": "real",
}


def one_round(updates):
    """The noised mean of a random sample of clipped updates."""
    drawn = np.random.choice(updates, SAMPLED, replace=False)
    return np.clip(drawn, -CLIP, CLIP).mean() + np.random.normal(0.0, MULTIPLIER * CLIP / SAMPLED)


if __name__ == "__main__":
    sampling = {"records": CLIENTS, "batch_size": SAMPLED, "scheme": "without-replacement"}
    truth = dp_sgd(noise_multiplier=MULTIPLIER, steps=1, relation="replace-one", **sampling)
    sys.stdout.write(f"certified epsilon {truth.epsilon(1e-5):.2f} at delta 1e-5\n")
    report = sordino.audit(f"python:{__file__}:one_round", claim=CLAIM, seconds=60, seed=1)
    sys.stdout.write(f"{report.sentence}\n")
    sys.exit(0 if report.violated else 1)
