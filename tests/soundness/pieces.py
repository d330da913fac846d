"""Random pieces of a run, as plain JSON values: schedules, starts, what is kept, what is averaged."""

from typing import Any

import numpy as np
from scipy import linalg

from sordino import Spec, View

Json = Any
FULL = {"scheme": "full"}
VIEWS = (View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def direction(rng: np.random.Generator, dim: int) -> np.ndarray:
    """A uniform unit vector."""
    vector = rng.standard_normal(dim)
    return vector / np.linalg.norm(vector)


def described(algorithm: Json, relation: str = "replace-one", view: str = "all-iterates", **more: Json) -> Spec:
    return Spec.from_dict({"algorithm": algorithm, "relation": relation, "view": view, **more})


def laplace_below(x: np.ndarray) -> np.ndarray:
    """P(noise < x) for Laplace noise of scale 1."""
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


def between(below: np.ndarray) -> np.ndarray:
    """Probabilities of the cells between cuts and of the two tails, from those below the cuts."""
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def toeplitz(column: np.ndarray, steps: int) -> np.ndarray:
    """The lower triangular matrix of so many steps whose first column begins so."""
    return linalg.toeplitz(np.pad(column, (0, steps - len(column))), np.zeros(steps))


def chain_run(
    problem: Json, *, relation: str = "replace-one", view: str = "last-iterate", batch: Json = FULL, **algorithm: Json
) -> Json:
    """A chain of noisy gradient steps; a bare number, list or schedule of noise scales is that of Gaussian noise."""
    scale = algorithm.pop("scale", None)
    noise = {} if scale is None else {"noise": {"kind": "gaussian", "scale": scale}}
    settings = {"kind": "noisy-gradient", "batch": batch, **noise, **algorithm}
    return {"algorithm": settings, "problem": problem, "relation": relation, "view": view}


def chain_spec(problem: Json, **settings: Json) -> Spec:
    return Spec.from_dict(chain_run(problem, **settings))


def schedules(rng: np.random.Generator, tops: tuple[float, ...], steps: int) -> list[Json]:
    """A schedule for each largest value: all constant half of the time, otherwise of any kinds."""
    return list(tops) if chance(rng, 0.5) else [schedule(rng, top, steps) for top in tops]


def schedule(rng: np.random.Generator, top: float, steps: int) -> Json:
    """A constant, a list or a polynomial whose largest value is `top`."""
    kind = rng.choice(["constant", "list", "polynomial"])
    if kind == "constant":
        return top
    if kind == "polynomial":
        power = float(rng.choice([0.0, 0.33, 0.5, 1.0]))
        return {"kind": "polynomial", "initial": top, "offset": float(rng.uniform(1, 10)), "power": power}
    values = top * rng.uniform(0.2, 1.0, steps)
    values[rng.integers(steps)] = top
    return {"kind": "list", "values": values.tolist()}


def start(rng: np.random.Generator, dim: int, unit: float) -> Json:
    """The origin, another point, or a Gaussian."""
    kind = rng.choice(["origin", "point", "gaussian"])
    if kind == "gaussian":
        return {"kind": "gaussian", "scale": unit * log_uniform(rng, 0.01, 10)}
    return {"kind": "point", "values": None if kind == "origin" else (unit * rng.normal(size=dim)).tolist()}


def keep(rng: np.random.Generator, view: View, steps: int, most: int) -> Json:
    """Everything where that is at most `most` iterates, or a thinned part of at most that many; last for last."""
    if view is View.LAST_ITERATE or (steps <= most and chance(rng, 0.4)):
        return None
    burn_in = int(rng.integers(0, steps))
    thin = max(-(-(steps - burn_in) // most), int(rng.integers(1, 4)))
    return {"burn_in": burn_in, "thin": thin}


def average(rng: np.random.Generator, view: View, dim: int, scale: float) -> Json:
    """The iterates' own average, released with Gaussian noise about as large as the chain's."""
    if view is not View.AVERAGE:
        return None
    noise = {"kind": "gaussian", "scale": scale * log_uniform(rng, 0.1, 10)}
    return {"lipschitz": 1.0, "dim": dim, "noise": noise}
