"""Matrix mechanisms with secret participation: every pattern of uses is a Gaussian, their mixture is cut into cells."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import special

from tests.soundness.cells import CellTruth
from tests.soundness.pieces import described, log_uniform, toeplitz
from tests.soundness.registry import Instance, Neighbours, instance

_CUTS = {1: 2000, 2: 160, 3: 44, 4: 22}


def patterns(participation: dict[str, Any], steps: int) -> list[tuple[float, tuple[int, ...]]]:
    """Chances and steps of use, listed by hand for a unit of the first group."""
    scheme, every, rate = participation["scheme"], participation.get("separation", 1), participation.get("rate", 0.0)
    if scheme == "balls-in-bins":
        return [(1 / every, tuple(range(first, steps, every))) for first in range(every)]
    if scheme == "random-allocation":
        rounds = range(0, steps, every)
        choices = list(product(range(every), repeat=len(rounds)))
        uses = [tuple(r + c for r, c in zip(rounds, chosen, strict=True) if r + c < steps) for chosen in choices]
        return [(1 / len(choices), one) for one in uses]
    found = []
    for mask in product((0, 1), repeat=steps):
        chance, free = 1.0, 0
        for step, used in enumerate(mask):
            turn = step % every == 0 if scheme == "poisson" else step >= free
            p = rate if turn else 0.0
            chance *= p if used else 1 - p
            free = step + every if used and scheme == "min-separation" else free
        if chance > 0:
            found.append((chance, tuple(np.flatnonzero(mask))))
    return found


def cells(matrix: np.ndarray, listed: list[tuple[float, tuple[int, ...]]], signs: np.ndarray) -> np.ndarray:
    """Probabilities of a grid of cells under the mixture of all patterns, contributions of these signs."""
    rows = len(matrix)
    cuts = np.concatenate([[-np.inf], np.linspace(-6, 6, _CUTS[rows]), [np.inf]])
    total = np.zeros(())
    for chance, uses in listed:
        mean = matrix[:, list(uses)] @ signs[list(uses)]
        joint = np.ones(())
        for place in mean:
            joint = np.multiply.outer(joint, np.diff(special.ndtr(cuts - place)))
        total = total + chance * joint
    return total.ravel()


def _drawn(rng: np.random.Generator, schemes: tuple[str, ...]) -> Instance:
    """Two to four steps, Toeplitz or dense matrices with entries of any sign, these schemes, both relations."""
    steps = int(rng.integers(2, 5))
    scheme = str(rng.choice(schemes))
    participation: dict[str, Any] = {"scheme": scheme, "separation": int(rng.integers(2, steps + 1))}
    if scheme in {"poisson", "min-separation"}:
        participation |= {"separation": int(rng.integers(1, steps + 1)), "rate": float(rng.uniform(0.05, 0.9))}
    signed = bool(rng.integers(2))
    if rng.integers(2):
        column = np.concatenate([[1.0], rng.uniform(-0.6 if signed else 0.0, 0.9, int(rng.integers(0, steps)))])
        matrix = toeplitz(column, steps)
        strategy: dict[str, Any] = {"kind": "toeplitz", "coefficients": column.tolist()}
    else:
        matrix = np.tril(rng.uniform(-0.8 if signed else 0.0, 0.8, (steps, steps)), -1) + np.eye(steps)
        strategy = {"kind": "dense", "rows": [row[: place + 1].tolist() for place, row in enumerate(matrix)]}
    multiplier = log_uniform(rng, 1.2, 8.0)
    relation = str(rng.choice(["add-remove", "replace-one"]))
    listed = patterns(participation, steps)
    none = cells(matrix / multiplier, [(1.0, ())], np.ones(steps))
    pairs = []
    for signs in (np.ones(steps), rng.choice([-1.0, 1.0], steps)):
        own = cells(matrix / multiplier, listed, signs)
        other = none if relation == "add-remove" else cells(matrix / multiplier, listed, -signs)
        pairs.append(Neighbours(f"contributions {signs.tolist()}", CellTruth(own, other)))
    algorithm = {"kind": "matrix-mechanism", "steps": steps, "strategy": strategy, "contribution": 3.0}
    algorithm |= {"noise_multiplier": multiplier, "participation": participation}
    return Instance(described(algorithm, relation), tuple(pairs))


_PLACES = ("balls-in-bins", "random-allocation")
instance("matrix-by-chance")(partial(_drawn, schemes=("poisson", "min-separation", *_PLACES)))
# A theorem of its own: some of these are in every run of the tests.
instance("matrix-by-place")(partial(_drawn, schemes=_PLACES))


def _capped(rng: np.random.Generator) -> Instance:
    """One other unit in the group, one place in every step: the first in the table of those drawn has it."""
    steps, every = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    rate, first = float(rng.uniform(0.05, 0.9)), bool(rng.integers(2))
    column = np.concatenate([[1.0], rng.uniform(0.0, 0.9, int(rng.integers(0, steps)))])
    multiplier = log_uniform(rng, 1.2, 8.0)
    matrix = toeplitz(column, steps) / multiplier
    relation = str(rng.choice(["add-remove", "replace-one"]))
    turns = list(range(0, steps, every))

    def law(own: float | None) -> np.ndarray:
        """Cells of the mixture over the coins of both units, the other's contribution being -1."""
        listed = []
        for coins in product((0, 1), repeat=2 * len(turns)):
            chance = float(np.prod([rate if coin else 1 - rate for coin in coins]))
            x = np.zeros(steps)
            for turn, mine, others in zip(turns, coins[::2], coins[1::2], strict=True):
                used = mine and own is not None and (first or not others)
                x[turn] = own if used and own is not None else -float(others)
            listed.append((chance, x))
        total = np.zeros(())
        for chance, x in listed:
            total = total + chance * cells(matrix, [(1.0, tuple(range(steps)))], x)
        return total

    algorithm = {"kind": "matrix-mechanism", "steps": steps, "contribution": 2.0, "noise_multiplier": multiplier}
    algorithm |= {"strategy": {"kind": "toeplitz", "coefficients": column.tolist()}}
    participation = {"scheme": "poisson", "separation": min(every, steps), "rate": rate, "cap": 1, "units": 1}
    spec = described(algorithm | {"participation": participation}, relation)
    away = law(None) if relation == "add-remove" else law(-1.0)
    return Instance(spec, (Neighbours("the other pulls the other way", CellTruth(law(1.0), away)),))


instance("matrix-capped")(_capped)
