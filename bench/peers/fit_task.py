"""The table that everyone fits, end to end: 30,000 records, 14 features, two classes, as large as Adult. NumPy only."""

import json
import sys

import numpy as np
import task

ROWS, FEATURES, TEST_ROWS = 30_000, 14, 10_000
EPSILON, DELTA = 1.0, 1e-5


def write(path: str) -> None:
    """The table as CSV, test rows last."""
    generator = np.random.default_rng(0)
    X = np.clip(generator.normal(size=(ROWS + TEST_ROWS, FEATURES)) / 3, -1, 1)
    logits = 4.0 * X @ generator.normal(size=FEATURES) - 1.0
    y = generator.random(len(X)) < 1.0 / (1.0 + np.exp(-logits))
    header = ",".join([*(f"x{place}" for place in range(FEATURES)), "y"])
    np.savetxt(path, np.column_stack([X, y]), fmt="%.5f", delimiter=",", header=header, comments="")


def read(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows to fit and their classes, rows to score and theirs."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, :FEATURES], table[:, FEATURES].astype(int)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def report(predicted: np.ndarray, y: np.ndarray, versions: dict[str, str]) -> None:
    accuracy = float(np.mean(np.asarray(predicted).astype(int) == y))
    sys.stdout.write(task.WORD + json.dumps({"accuracy": accuracy, "versions": versions}) + "\n")
