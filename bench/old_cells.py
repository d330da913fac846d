"""Cells on which the engine before this one was measured: coverage and errors of slopes on columns of ten known shapes.

    python -m bench.old_cells --tables 40

Each cell draws tables anew. Columns are spiky (one value in 95 % of rows), shifted (a corner of their box), those of a
hospital (a 1 % flag, skew cost, a correlated pair), uniform, or real (correlated normals, 0/1 and skew ones). Errors
of the linear cells are skew and heteroscedastic.
"""

import argparse
import sys
import time

import numpy as np

from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, plan, posterior, release
from sordino.noise.randomness import SeededRandomness

# Family, design, records, epsilon, relation; what the engine before this one had there: 95 % hold, error.
CELLS = (
    ("linear", "spiky", 30_000, 2.0, "replace-one", 29.0, 0.0184),
    ("logistic", "spiky", 30_000, 2.0, "replace-one", 75.0, 0.212),
    ("rare", "spiky", 30_000, 2.0, "replace-one", 13.0, 0.79),
    ("rare", "shifted", 30_000, 2.0, "replace-one", 35.0, 1.98),
    ("poisson", "spiky", 30_000, 2.0, "replace-one", 65.0, 0.106),
    ("robust", "spiky", 30_000, 2.0, "replace-one", 61.0, 0.0097),
    ("linear", "hospital", 30_000, 2.0, "replace-one", 84.0, 0.0146),
    ("logistic", "hospital", 30_000, 2.0, "replace-one", 94.0, 0.133),
    ("poisson", "hospital", 30_000, 2.0, "replace-one", 95.0, 0.0905),
    ("linear", "uniform", 50_000, 1.0, "replace-one", 92.5, 0.0006),
    ("logistic", "real", 10_000, 1.0, "add-remove", 95.0, 0.189),
    ("linear", "real", 10_000, 1.0, "add-remove", 95.0, 0.0043),
    ("linear", "real", 2_000, 1.0, "replace-one", 96.0, 0.031),
    ("logistic", "uniform", 2_000, 1.0, "replace-one", 97.0, 0.165),
)


def columns(g, which, n):
    if which == "hospital":
        u, flags = g.normal(size=n), (2.0 * (g.random((n, 2)) < [0.01, 0.5]) - 1).T
        numbers = [g.normal(0.1, 0.35, n), -0.7 + 0.25 * g.gamma(2, 1, n), g.integers(0, 5, n) / 2 - 1, 0.3 * u]
        numbers += [0.3 * (0.9 * u + 0.436 * g.normal(size=n)), 2 * np.exp(g.normal(-3, 1, n)) - 1]
        spikes = np.where(g.random(n) < 0.7, -1, g.uniform(-1, 1, n))
        return np.clip(np.column_stack([*numbers, *flags, spikes]), -1, 1)
    if which == "spiky":
        X = np.where(g.random((n, 6)) < 0.95, -1.0, g.uniform(-1, 1, (n, 6)))
        X[:, 0] = np.where(g.random(n) < 0.98, -1, 1)
        return X
    if which == "shifted":
        return np.clip(0.8 + 0.08 * g.normal(size=(n, 4)), -1, 1)
    if which == "uniform":
        return g.uniform(-1, 1, (n, 5))
    Z = g.normal(size=(n, 3))
    Z[:, 1] = 0.8 * Z[:, 0] + 0.6 * Z[:, 1]
    flags = (g.random((n, 4)) < np.array([0.1, 0.3, 0.5, 0.05])).astype(float)
    return np.hstack([np.clip(0.25 * Z - 0.5, -1, 1), flags, np.clip(2 * g.beta(2, 8, (n, 3)) - 1, -1, 1)])


def table(family, which, n, seed):
    """Rows, targets, encoded truth (of numbers over half the target's range) and bounds of the target."""
    g = np.random.default_rng([990_000, seed, n])
    X = columns(g, which, n)
    d, old = X.shape[1], which in ("uniform", "real")
    if old:
        t = g.normal(0, 1.0 if family == "logistic" else 0.4, d + 1)
    else:
        t = g.normal(0, {"logistic": 0.7, "rare": 0.7}.get(family, 0.3), d + 1) * np.r_[1, g.random(d) < 0.6]
    if family in ("rare", "poisson"):
        t[0] = (-3 + t[0] if family == "rare" else 0.7) - X.mean(0) @ t[1:]
    s = t[0] + X @ t[1:]
    if family in ("logistic", "rare"):
        return X, (s + g.logistic(size=n) > 0).astype(float), t, None
    if family == "poisson":
        return X, np.minimum(g.poisson(np.exp(np.clip(s, -20, 5))), 40).astype(float), t, (0.0, 40.0)
    if old:
        e = 0.3 * (g.normal(size=n) if which == "uniform" else g.standard_t(4, n) * (1 + 0.5 * X[:, 0]))
        return X, np.clip(s + e, -4, 4), t, (-4.0, 4.0)
    skew = (g.gamma(2, 1, n) - 2) * 0.2 * (1 + 0.6 * X[:, 0])
    return X, np.clip(s + (skew if family == "linear" else 0.25 * g.standard_t(3, n)), -6, 6), t, (-6.0, 6.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=20)
    asked = parser.parse_args()
    for family, which, n, epsilon, relation, before, error_before in CELLS:
        held, errors, begun = [], [], time.process_time()
        for seed in range(asked.tables):
            X, y, t, target = table(family, which, n, seed)
            declared = Declaration((-1.0,) * X.shape[1], (1.0,) * X.shape[1], target=target)
            word = "logistic" if family == "rare" else family
            made = plan(word, declared, n, Relation(relation), epsilon, 1e-6)
            law = posterior(made, release(made, X, y, SeededRandomness(seed)))
            ends = [law.interval(level)[1:] for level in (0.5, 0.9, 0.95)]
            held.append([np.mean((low <= t[1:]) & (t[1:] <= high)) for low, high in (one.T for one in ends)])
            half = 1.0 if target is None or family == "poisson" else target[1]
            errors.append(np.mean(((law.mean - t)[1:] / half) ** 2))
        now = 100 * np.mean(held, axis=0)
        sys.stdout.write(
            f"{family:9s}{which:9s}{n:7,} {epsilon:g} {relation:12s} {now[0]:.0f}/{now[1]:.0f}/{now[2]:.0f}"
            f" error {np.sqrt(np.mean(errors)):.4f} | before {before:.0f} %, {error_before:.4f}"
            f" | {(time.process_time() - begun) / asked.tables:.2f} s\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
