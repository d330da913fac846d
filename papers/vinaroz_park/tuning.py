"""Settings chosen on public synthetic data, by the same rule and with the same effort for every method.

A method's first candidate is its default setting, itself from earlier searches; the others are drawn at random, from
ranges written down here, with a fixed seed. Each runs on every shape of the suite at the budget that is used later; the
candidate with the smallest mean of log(test error / noise) is kept. The method with the smallest such mean is the one
that is named beforehand as the best. To choose again, and measure again with what is chosen:

    sordino reproduce private-regression --afresh --data-dir DIR
"""

import json
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from papers.vinaroz_park.budget import Budget
from papers.vinaroz_park.networks import (
    Fitted,
    LinearSetting,
    NaturalSetting,
    NetworkSetting,
    fit_linear,
    fit_natural,
    fit_network,
)
from papers.vinaroz_park.propagation import RoundsSetting, fit_rounds
from papers.vinaroz_park.sets import SUITE, Fold
from sordino.core.atomic_write import write_file
from sordino.core.bound import Relation
from sordino.core.validate import InputError

BUDGET = Budget(1.0, Relation.REPLACE_ONE)
CANDIDATES, SEED = 8, 101
# A run that noise has blown up counts as this many times the noise, not more.
_WORST = 20.0


@dataclass(frozen=True)
class Tuned:
    """A method with settings: how a setting is made of numbers, how it is fitted, and the ranges of its numbers."""

    setting: Callable[..., Any]
    fit: Callable[[Any, Fold, Budget, int], Fitted]
    ranges: dict[str, tuple[Any, ...]]

    def candidates(self, name: str) -> list[dict[str, Any]]:
        """The default setting, and others at random."""
        generator = np.random.default_rng([len(name), *name.encode()])
        drawn: list[dict[str, Any]] = [{}]
        while len(drawn) < min(CANDIDATES, math.prod(map(len, self.ranges.values())) + 1):
            one = {key: values[generator.integers(len(values))] for key, values in self.ranges.items()}
            if one not in drawn:
                drawn.append(one)
        return drawn


_ADAM = {
    "hidden": (5, 10, 20),
    "steps": (200, 400, 800),
    "clip": (0.1, 0.2, 0.3, 0.6),
    "first_step": (0.01, 0.02, 0.04, 0.08),
    "last_step": (0.0005, 0.002, 0.005),
    "start_scale": (0.2, 0.3, 0.5),
}
METHODS = {
    "natural": Tuned(
        NaturalSetting,
        fit_natural,
        {
            "parameter_share": (0.05, 0.07, 0.1),
            "steps": (200, 300, 400),
            "clip": (0.03, 0.05, 0.08),
            "first_step": (0.2, 0.3, 0.4),
            "last_step": (0.005, 0.01, 0.02),
            "damping": (0.005, 0.01, 0.03),
            "momentum": (0.5, 0.8),
            "whitening": (0.05, 0.1, 0.15),
            "whitening_rounds": (1, 2, 3),
        },
    ),
    "point": Tuned(NetworkSetting, fit_network, _ADAM),
    "whitened": Tuned(
        partial(NetworkSetting, hidden=20, whitening=0.1), fit_network, _ADAM | {"whitening": (0.05, 0.1, 0.2)}
    ),
    "gaussian": Tuned(partial(NetworkSetting, gaussian=True), fit_network, _ADAM),
    "rounds": Tuned(
        RoundsSetting,
        fit_rounds,
        {
            "steps": (80, 160, 320),
            "clip": (0.5, 1.0, 2.0),
            "first": (0.01, 0.03, 0.1),
            "last": (0.001, 0.003, 0.01),
            "weight": (0.1, 0.3),
            "floor_share": (0.001, 0.003, 0.01),
            "noise_precision": (4.0, 10.0),
        },
    ),
    "linear": Tuned(LinearSetting, fit_linear, {"rounds": (1, 2, 3, 4, 5)}),
}


def score(name: str, candidate: dict[str, Any], place: int) -> float:
    """log(test error / noise) of a candidate on one shape."""
    method, shape = METHODS[name], SUITE[place]
    fold = shape.draw(SEED)
    try:
        fitted = method.fit(method.setting(**candidate), fold, BUDGET, SEED)
    except InputError:  # a run that noise has blown up ends in numbers that no posterior takes
        return math.log(_WORST)
    error = float(np.sqrt(np.mean((fitted.mean - fold.test_y) ** 2)))
    return math.log(min(error / shape.noise, _WORST) if math.isfinite(error) else _WORST)


def tune(names: tuple[str, ...], processes: int) -> dict[str, Any]:
    """Every candidate of some methods on every shape, the best kept, in fresh processes."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        jobs = {
            (name, number, place): pool.submit(score, name, candidate, place)
            # Large tables first, so that none is left to run alone at the end.
            for place in sorted(range(len(SUITE)), key=lambda k: -SUITE[k].records)
            for name in names
            for number, candidate in enumerate(METHODS[name].candidates(name))
        }
        scores = {key: job.result() for key, job in jobs.items()}
    return {name: _kept(name, scores) for name in names}


def _kept(name: str, scores: dict[tuple[str, int, int], float]) -> dict[str, Any]:
    candidates = METHODS[name].candidates(name)
    by_shape = [[scores[name, number, place] for place in range(len(SUITE))] for number in range(len(candidates))]
    best = min(range(len(candidates)), key=lambda number: fmean(by_shape[number]))
    return {
        "setting": asdict(METHODS[name].setting(**candidates[best])),
        "score": round(fmean(by_shape[best]), 4),
        "by_shape": [round(value, 4) for value in by_shape[best]],
        "candidates": len(candidates),
        "default_score": round(fmean(by_shape[0]), 4),
    }


def write(path: Path, processes: int) -> None:
    """Choose again and write a file of chosen settings."""
    methods = tune(tuple(METHODS), processes)
    best = min(methods, key=lambda name: methods[name]["score"])
    write_file(path, (json.dumps({"best": best, "methods": methods}, indent=2) + "\n").encode())
