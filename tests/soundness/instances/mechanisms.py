"""Single mechanisms whose outputs can be listed, cut into cells, or integrated over one variable."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
from scipy import special

from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw
from tests.soundness.cells import CellTruth
from tests.soundness.pieces import between, chance, described, laplace_below, log_uniform, toeplitz
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import GaussianTruth, joint_cells

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _density(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.abs(x)) / 2


def _relation(rng: np.random.Generator) -> str:
    return "add-remove" if chance(rng, 0.5) else "replace-one"


def _answer(rng: np.random.Generator, noise: str, scale: float, sensitivity: float, dim: int, repetitions: int) -> Spec:
    named = {"kind": noise, "scale": scale}
    algorithm = {"kind": "noised-answer", "query": "any", "sensitivity": sensitivity, "dim": dim, "noise": named}
    return described(algorithm | {"repetitions": repetitions}, _relation(rng))


def _cuts(move: float) -> np.ndarray:
    """Cuts that are finest between the two centres, where the ratio of densities changes."""
    return np.concatenate(
        [np.linspace(-30, 0, 600), np.linspace(0, move, 800)[1:-1], np.linspace(move, move + 30, 600)]
    )


def _laplace_cells(move: float) -> CellTruth:
    """Laplace noise of scale 1, moved or not."""
    cuts = _cuts(move)
    return CellTruth(*(between(laplace_below(cuts - place)) for place in (0.0, move)))


@instance("mechanism-laplace")
def _laplace(rng: np.random.Generator) -> Instance:
    """One coordinate, or two that share the move, used up to three times."""
    move, uses = log_uniform(rng, 0.05, 4.0), int(rng.integers(1, 4))
    share = float(rng.uniform(0.0, 0.5))
    found = [
        Neighbours("one coordinate moves", joint_cells([_laplace_cells(move)] * uses)),
        Neighbours("two share", joint_cells([_laplace_cells(move * share), _laplace_cells(move * (1 - share))] * uses)),
    ]
    return Instance(_answer(rng, "laplace", 3.0, 3.0 * move, 2, uses), tuple(found))


@instance("mechanism-sampled-answer")
def _sampled_answer(rng: np.random.Generator) -> Instance:
    """A unit that is in the sample with a secret coin, or is not there at all; Laplace or Gaussian noise."""
    move, uses, rate = log_uniform(rng, 0.05, 4.0), int(rng.integers(1, 4)), float(rng.uniform(0.02, 0.98))
    noise = "laplace" if chance(rng, 0.5) else "gaussian"
    cuts = _cuts(move)
    below = laplace_below if noise == "laplace" else special.ndtr
    without, moved = (between(below(cuts - place)) for place in (0.0, move))
    mixed = (1 - rate) * without + rate * moved
    named = {"kind": noise, "scale": 3.0}
    algorithm = {"kind": "noised-answer", "query": "any", "sensitivity": 3.0 * move, "noise": named, "rate": rate}
    found = (
        Neighbours("added", joint_cells([CellTruth(without, mixed)] * uses)),
        Neighbours("removed", joint_cells([CellTruth(mixed, without)] * uses)),
    )
    return Instance(described(algorithm | {"repetitions": uses}, "add-remove"), found)


def _whole_cells(weights: Callable[[np.ndarray], np.ndarray], move: int, reach: int) -> CellTruth:
    x = np.arange(-reach, reach + 1)
    laws = [weights(x - place) for place in (0, move)]
    return CellTruth(*(law / law.sum() for law in laws))


@instance("mechanism-discrete-laplace")
def _discrete_laplace(rng: np.random.Generator) -> Instance:
    """Whole-number noise; the move may be shared by two coordinates."""
    scale, move, uses = log_uniform(rng, 0.5, 6.0), int(rng.integers(1, 7)), int(rng.integers(1, 4))

    def cells(part: int) -> CellTruth:
        return _whole_cells(lambda x: np.exp(-np.abs(x) / scale), part, 400)

    half = move // 2
    found = [Neighbours("one", joint_cells([cells(move)] * uses))]
    if half:
        found.append(Neighbours("two share", joint_cells([cells(half), cells(move - half)] * uses)))
    return Instance(_answer(rng, "discrete-laplace", scale, float(move), 2, uses), tuple(found))


@instance("mechanism-discrete-gaussian")
def _discrete_gaussian(rng: np.random.Generator) -> Instance:
    """Whole-number noise on one value, or on two."""
    scale, uses, dim = log_uniform(rng, 0.4, 8.0), int(rng.integers(1, 4)), int(rng.integers(1, 3))

    def cells(part: int) -> CellTruth:
        return _whole_cells(lambda x: np.exp(-((x / scale) ** 2) / 2), part, 400)

    if dim == 1:
        move = int(rng.integers(1, 4))
        spec, cell = _answer(rng, "discrete-gaussian", scale, float(move), 1, uses), [cells(move)]
    else:
        spec, cell = _answer(rng, "discrete-gaussian", scale, math.sqrt(5) * (1 + 1e-15), 2, uses), [cells(1), cells(2)]
    return Instance(spec, (Neighbours("moved", joint_cells(cell * uses)),))


@instance("mechanism-gaussian")
def _gaussian(rng: np.random.Generator) -> Instance:
    """Any direction of a vector."""
    ratio, dim, uses = log_uniform(rng, 0.05, 4.0), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    way = rng.standard_normal(dim)
    mean = np.tile(ratio * way / np.linalg.norm(way) * (1 - 1e-12), uses)
    laws = GaussianLaw(np.zeros(dim * uses), np.eye(dim * uses)), GaussianLaw(mean, np.eye(dim * uses))
    return Instance(_answer(rng, "gaussian", 2.0, 2.0 * ratio, dim, uses), (Neighbours("moved", GaussianTruth(*laws)),))


@instance("mechanism-randomised-response")
def _response(rng: np.random.Generator) -> Instance:
    """All tables of answers, up to three questions."""
    categories, truth, uses = int(rng.integers(2, 5)), float(rng.uniform(0.02, 0.98)), int(rng.integers(1, 4))
    spec = {"kind": "randomised-response", "categories": categories, "truth": truth, "repetitions": uses}
    table = _response_table(categories, truth)
    first, second = np.ones(1), np.ones(1)
    for _ in range(uses):
        first, second = np.kron(first, table[0]), np.kron(second, table[1])
    return Instance(described(spec), (Neighbours("another category", CellTruth(first, second)),))


def _response_table(categories: int, truth: float) -> np.ndarray:
    return np.where(np.eye(categories) > 0, truth, (1 - truth) / (categories - 1))


def _pieces(kinks: np.ndarray, reach: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Nodes and weights between kinks, and well beyond them, in pieces short enough for exponentials."""
    ends = np.unique(np.concatenate([kinks, np.linspace(kinks.min() - reach, kinks.max() + reach, 60)]))
    for low, high in pairwise(ends):
        yield (low + high) / 2 + (high - low) / 2 * _NODES, (high - low) / 2 * _WEIGHTS


def _noisy_max(scores: np.ndarray) -> np.ndarray:
    """How often each score is the largest with Laplace noise of scale 1."""
    chances = np.zeros(len(scores))
    for x, weight in _pieces(scores, 45.0):
        below = laplace_below(x[:, None] - scores)
        for place, score in enumerate(scores):
            others = np.delete(below, place, axis=1).prod(axis=1)
            chances[place] += float(weight @ (_density(x - score) * others))
    return chances / chances.sum()


def _permute_and_flip(scores: np.ndarray) -> np.ndarray:
    accepted = np.exp(scores - scores.max())
    chances = np.zeros(len(scores))
    for order in permutations(range(len(scores))):
        left = 1.0
        for place in order:
            chances[place] += left * accepted[place]
            left *= 1 - accepted[place]
    return chances / chances.sum()


_METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exponential": special.softmax,
    "noisy-max-gumbel": special.softmax,
    "permute-and-flip": _permute_and_flip,
    "noisy-max-exponential": _permute_and_flip,
    "noisy-max-laplace": _noisy_max,
}


def _select(rng: np.random.Generator, method: str) -> Instance:
    """Scores that move up or down by the whole sensitivity, or all one way, among random ones and equal ones."""
    move, monotone, uses = log_uniform(rng, 0.02, 2.0), chance(rng, 0.5), int(rng.integers(1, 3))
    relation, found = _relation(rng), []
    for label, scores in (("random", rng.normal(size=4)), ("equal", np.zeros(5)), ("far", np.array([0.0, -3.0, -6.0]))):
        ways = list(product((0.0, 1.0) if monotone and relation == "add-remove" else (-1.0, 1.0), repeat=len(scores)))
        for way in [ways[1], ways[len(ways) // 2], *(ways[place] for place in rng.integers(0, len(ways), 3))]:
            laws = [_METHODS[method](part) for part in (scores, scores + move * np.array(way))]
            truth = CellTruth(*laws) if uses == 1 else CellTruth(*(np.kron(law, law) for law in laws))
            found.append(Neighbours(f"{label} {way}", truth))
    spec = {"kind": "selection", "method": method, "sensitivity": 5.0 * move, "scale": 5.0, "monotone": monotone}
    return Instance(described(spec | {"repetitions": uses}, relation), tuple(found))


for _name in _METHODS:
    instance(f"selection-{_name}")(lambda rng, method=_name: _select(rng, method))


def _above_threshold(queries: np.ndarray, positives: int, scales: tuple[float, float]) -> np.ndarray:
    """Probabilities of all sequences of answers, stopped after so many above."""
    sequences = [s for s in product((0, 1), repeat=len(queries)) if sum(s) <= positives]
    found = np.zeros(len(sequences))
    for x, weight in _pieces(np.append(queries, 0.0), 40.0 * max(scales)):
        below = laplace_below((x[:, None] - queries) / scales[1])
        density = weight * _density(x / scales[0]) / scales[0]
        for place, sequence in enumerate(sequences):
            part, seen = density.copy(), 0
            for query, above in enumerate(sequence):
                if seen < positives:
                    part = part * (1 - below[:, query] if above else below[:, query])
                elif above:
                    part = part * 0.0
                seen += above
            found[place] += float(part.sum())
    return found / found.sum()


@instance("sparse-vector")
def _sparse(rng: np.random.Generator) -> Instance:
    """Five queries against the threshold 0, moved up or down by the sensitivity, or all one way."""
    positives, monotone, relation = int(rng.integers(1, 4)), chance(rng, 0.5), _relation(rng)
    move, scales = log_uniform(rng, 0.1, 1.0), (float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.5, 4.0)))
    found = []
    tables = {"random": rng.normal(size=5), "on the threshold": np.zeros(5), "low": np.full(5, -2.0)}
    for label, queries in tables.items():
        one_way = monotone and relation == "add-remove"
        for way in (np.ones(5), rng.choice([0.0, 1.0] if one_way else [-1.0, 1.0], 5)):
            laws = [_above_threshold(part, positives, scales) for part in (queries, queries + move * way)]
            found.append(Neighbours(label, CellTruth(*laws)))
    spec = {"kind": "sparse-vector", "sensitivity": move, "positives": positives, "monotone": monotone}
    spec |= {"threshold_scale": scales[0], "query_scale": scales[1]}
    return Instance(described(spec, relation), tuple(found))


@instance("mechanism-random-shift")
def _random_shift(rng: np.random.Generator) -> Instance:
    """Mixtures on the line, all of one weight or some of them still."""
    shifts = np.sort(rng.uniform(0, 4, int(rng.integers(1, 4))))
    shifts[0] *= 0.0 if len(shifts) > 1 and chance(rng, 0.5) else 1.0
    weights, uses = rng.dirichlet(np.ones(len(shifts))), int(rng.integers(1, 3))
    weights[-1] += 1 - math.fsum(weights)
    cuts = np.linspace(-10, 14, 4000)
    table = [_normal_cells(cuts - shift) for shift in (0.0, *shifts)]
    truth = joint_cells([CellTruth(weights @ np.array(table[1:]), table[0])] * uses)
    spec = {"kind": "random-shift", "shifts": (2 * shifts).tolist(), "weights": weights.tolist(), "scale": 2.0}
    return Instance(described(spec | {"repetitions": uses}, "add-remove"), (Neighbours("present", truth),))


def _strategy(rng: np.random.Generator, steps: int) -> tuple[dict[str, Any], np.ndarray]:
    """A strategy in JSON and its matrix, built here on its own."""
    kind = str(rng.choice(["toeplitz", "blt", "bisr", "tree", "dense"]))
    if kind == "tree":
        levels = 1 + math.ceil(math.log2(steps)) if steps > 1 else 1
        nodes = [[t // 2**level == node for t in range(steps)] for level in range(levels) for node in range(steps)]
        return {"kind": kind}, np.array(nodes, dtype=float)
    if kind == "dense":
        matrix = np.tril(rng.normal(size=(steps, steps)), -1) + np.eye(steps)
        return {"kind": kind, "rows": [row[: place + 1].tolist() for place, row in enumerate(matrix)]}, matrix
    column = np.zeros(steps)
    if kind == "toeplitz":
        coefficients = np.concatenate([[1.0], rng.uniform(-0.5, 1.0, int(rng.integers(0, steps)))])
        coefficients = np.sort(np.abs(coefficients))[::-1] if chance(rng, 0.5) else coefficients
        column[: len(coefficients)] = coefficients
        given: dict[str, Any] = {"kind": kind, "coefficients": coefficients.tolist()}
    elif kind == "blt":
        weights, decays = rng.uniform(0.05, 0.4, 2), rng.uniform(0.2, 0.95, 2)
        column[0], column[1:] = 1.0, [(weights * decays**lag).sum() for lag in range(steps - 1)]
        given = {"kind": kind, "weights": weights.tolist(), "decays": decays.tolist()}
    else:
        bands = int(rng.integers(1, steps + 1))
        root = np.array([special.binom(0.5, lag) * (-1.0) ** lag if lag < bands else 0.0 for lag in range(steps)])
        return {"kind": kind, "bands": bands}, np.linalg.inv(toeplitz(root, steps))
    return given, toeplitz(column, steps)


@instance("matrix-mechanism")
def _matrix(rng: np.random.Generator) -> Instance:
    """Every pattern of uses, with contributions of all signs."""
    steps, separation = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    strategy, matrix = _strategy(rng, steps)
    scheme = str(rng.choice(["single", "epochs", "min-separation"]))
    participation: dict[str, Any] = {"scheme": scheme}
    patterns = [(place,) for place in range(steps)]
    if scheme == "epochs":
        separation = min(separation, steps)
        participation |= {"separation": separation}
        patterns = [tuple(range(first, steps, separation)) for first in range(separation)]
    elif scheme == "min-separation":
        separation = min(separation, steps)
        most = -(-steps // separation)
        uses = int(rng.integers(1, most + 1))
        participation |= {"separation": separation, "uses": uses}
        patterns = [
            places
            for mask in product((0, 1), repeat=steps)
            if (places := tuple(np.flatnonzero(mask))) and len(places) <= uses and np.all(np.diff(places) >= separation)
        ]
    relation, multiplier = _relation(rng), log_uniform(rng, 0.5, 20.0)
    moves = []
    for places in patterns:
        for signs in product((1.0, -1.0), repeat=min(len(places), 5)):
            contribution = np.zeros(steps)
            contribution[list(places)] = np.resize(signs, len(places))
            moves.append(matrix @ contribution)
    move = max(moves, key=lambda one: float(one @ one)) * (2.0 if relation == "replace-one" else 1.0) / multiplier
    laws = GaussianLaw(np.zeros(1), np.eye(1)), GaussianLaw(np.array([np.linalg.norm(move)]) * (1 - 1e-12), np.eye(1))
    spec = {"kind": "matrix-mechanism", "steps": steps, "strategy": strategy, "contribution": 3.0}
    spec |= {"noise_multiplier": multiplier, "participation": participation}
    return Instance(described(spec, relation), (Neighbours("worst pattern", GaussianTruth(*laws)),))


Slope = Callable[[np.ndarray], np.ndarray]


def _best_of(rng: np.random.Generator) -> tuple[dict[str, Any], float, Slope]:
    """A law of the number of trials, its chance of none, and the derivative of its generating function."""
    if chance(rng, 0.4):
        mean = log_uniform(rng, 0.2, 30)
        return {"kind": "poisson", "mean": mean}, math.exp(-mean), lambda x: mean * np.exp(mean * (x - 1))
    shape, stop = float(rng.choice([-0.5, 0.0, 0.5, 1.0, 2.0])), float(rng.uniform(0.03, 0.8))
    factor = -1 / math.log(stop) if shape == 0.0 else shape / (stop**-shape - 1)
    trials = {"kind": "negative-binomial", "shape": shape, "stop": stop}
    return trials, 0.0, lambda x: factor * (1 - stop) * (1 - (1 - stop) * x) ** (-shape - 1)


def _best(law: np.ndarray, none: float, slope: Slope) -> np.ndarray:
    """The law of the best of the trials, the last cell the best; what is told where there are none comes first.

    A cell's chance is its own times an average slope: differences would lose the rare cells, which high orders see.
    """
    lows = np.concatenate([[0.0], np.cumsum(law)[:-1]])
    at = lows[:, None] + law[:, None] * (_NODES[None, :] + 1) / 2
    return np.concatenate([[none], law * (slope(np.minimum(at, 1.0)) @ _WEIGHTS) / 2])


@instance("repeat-and-select-response")
def _tuned_response(rng: np.random.Generator) -> Instance:
    """Trials are randomised responses; every category may be the best one."""
    categories, truth = int(rng.integers(2, 5)), float(rng.uniform(0.2, 0.9))
    trials, none, slope = _best_of(rng)
    table = _response_table(categories, truth)
    found = [
        Neighbours(f"category {i} or {j}", CellTruth(_best(table[i], none, slope), _best(table[j], none, slope)))
        for i in range(categories)
        for j in range(i)
    ]
    base = {"algorithm": {"kind": "randomised-response", "categories": categories, "truth": truth}}
    return Instance(described({"kind": "repeat-and-select", "base": base, "trials": trials}), tuple(found))


def _normal_cells(cuts: np.ndarray) -> np.ndarray:
    """Probabilities between and beyond the cuts, each from its nearer tail."""
    below = np.concatenate([[0.0], special.ndtr(cuts), [1.0]])
    above = np.concatenate([[1.0], special.ndtr(-cuts), [0.0]])
    return np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))


@instance("repeat-and-select-gaussian")
def _tuned_gaussian(rng: np.random.Generator) -> Instance:
    """Trials are Gaussian answers; the largest one, or that nearest to 0 from above, is the best."""
    ratio = log_uniform(rng, 0.05, 2.0)
    trials, none, slope = _best_of(rng)
    cuts = np.linspace(-9, 9 + ratio, 1500)
    laws = [_normal_cells(cuts - place) for place in (0.0, ratio)]
    orders = {"largest": slice(None), "smallest": slice(None, None, -1)}
    found = [
        Neighbours(label, CellTruth(*(_best(law[order], none, slope) for law in laws)))
        for label, order in orders.items()
    ]
    noise = {"kind": "gaussian", "scale": 1.0}
    base = {"algorithm": {"kind": "noised-answer", "query": "any", "sensitivity": ratio, "noise": noise}}
    return Instance(
        described({"kind": "repeat-and-select", "base": base, "trials": trials}, _relation(rng)), tuple(found)
    )
