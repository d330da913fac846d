"""How low the noise floor of a set can be: no more than the error of the best predictor one knows, private or not."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge

from papers.vinaroz_park import chosen
from papers.vinaroz_park.budget import Budget, Scores, averaged, certified, scored
from papers.vinaroz_park.networks import Fitted, fit_linear, fit_natural, fit_network
from papers.vinaroz_park.propagation import fit_mismatched, fit_rounds, fit_sep
from papers.vinaroz_park.sets import Fold, regression_set, teacher
from sordino.core.bound import Relation

# Kernel ridge regression solves a system of as many equations as records.
_MOST_RECORDS = 12_000


def fit_trees(fold: Fold, seed: int) -> Fitted:
    """Not private: extremely randomised trees."""
    model = ExtraTreesRegressor(200, min_samples_leaf=2, random_state=seed).fit(fold.X, fold.y)
    return _fitted(fold, model.predict(fold.test_rows))


def fit_kernel(fold: Fold, seed: int) -> Fitted:
    """Not private: ridge regression with a Gaussian kernel; of a large set, the first records only."""
    del seed
    X, y = fold.X[:_MOST_RECORDS], fold.y[:_MOST_RECORDS]
    centre = float(y.mean())
    model = KernelRidge(kernel="rbf", gamma=0.6 / X.shape[1])
    model.set_params(alpha=0.03).fit(X, y - centre)
    return _fitted(fold, centre + model.predict(fold.test_rows))


def _fitted(fold: Fold, mean: np.ndarray) -> Fitted:
    """These answer with points; their spread is that of the test errors, which only a floor may look at."""
    return Fitted(mean, np.full(len(mean), float(np.mean((fold.test_y - mean) ** 2))), ())


# Every method on every split of the regression sets, private ones with their certificate.

REPLACE, ADD_REMOVE = Budget(1.0, Relation.REPLACE_ONE), Budget(1.0, Relation.ADD_REMOVE)
SPLITS = 5


@dataclass(frozen=True)
class Row:
    """A method's scores on one set, averaged over splits; epsilon is None where nothing is certified."""

    dataset: str
    method: str
    kind: str
    scaling: str
    relation: str
    epsilon: float | None
    scores: Scores
    spread: float
    errors: tuple[float, ...]

    @property
    def splits(self) -> int:
        """The number of splits."""
        return len(self.errors)


PRIVATE, REFERENCE, MISMATCHED = "private", "not private", "NOT PRIVATE, mismatched noise"
NATURAL, DP_POINT, DP_WHITENED, DP_VI, DP_SEP, DP_LINEAR = NAMES = (
    "natural gradients",
    "DP-Adam, point",
    "DP-Adam, whitened rows",
    "DP-VI",
    "DP-SEP, rounds",
    "private linear, whitened in rounds",
)
# What `chosen` calls them.
KEYS = dict(zip(NAMES, ("natural", "point", "whitened", "gaussian", "rounds", "linear"), strict=True))
SEP, SEP_CLIPPED, MISMATCH = "SEP", "SEP clipped, C = 1", "mismatched DP-SEP"
TREES, KERNEL = "extremely randomised trees", "kernel ridge"
PrivateFit = Callable[[Fold, Budget, int, bool], Fitted]
Fit = Callable[[Fold, int, int], Fitted]


def _network(key: str) -> PrivateFit:
    def fit(fold: Fold, budget: Budget, seed: int, noised: bool) -> Fitted:
        return fit_network(replace(chosen.network(key), noised=noised), fold, budget, seed)

    return fit


# Private methods with their chosen settings; the last argument is False for the same without noise.
PRIVATE_FITS: dict[str, PrivateFit] = {
    NATURAL: lambda fold, budget, seed, noised: fit_natural(
        replace(chosen.natural(), noised=noised), fold, budget, seed
    ),
    DP_POINT: _network("point"),
    DP_WHITENED: _network("whitened"),
    DP_VI: _network("gaussian"),
    DP_SEP: lambda fold, budget, seed, noised: fit_rounds(chosen.rounds(), fold, budget, seed, noised),
    DP_LINEAR: lambda fold, budget, seed, _: fit_linear(chosen.linear(), fold, budget, seed),
}


@dataclass(frozen=True)
class Method:
    """A row to be: how it runs on a split with a seed and a number of epochs, which only sequential ones use."""

    name: str
    kind: str
    fit: Fit
    relation: str = "-"
    standardised: bool = False


def _private(name: str, budget: Budget) -> Method:
    def fit(fold: Fold, seed: int, _: int) -> Fitted:
        return PRIVATE_FITS[name](fold, budget, seed, True)

    return Method(name, PRIVATE, fit, budget.relation.value)


def _silent(name: str) -> Method:
    def fit(fold: Fold, seed: int, _: int) -> Fitted:
        return PRIVATE_FITS[name](fold, REPLACE, seed, False)

    return Method(f"{name}, no noise", REFERENCE, fit)


METHODS: tuple[Method, ...] = (
    *(_private(name, REPLACE) for name in PRIVATE_FITS),
    *(_private(name, ADD_REMOVE) for name in (NATURAL, DP_VI, DP_LINEAR)),
    *(_silent(name) for name in (NATURAL, DP_POINT, DP_SEP)),
    Method(SEP, REFERENCE, lambda fold, seed, epochs: fit_sep(fold, epochs, seed)),
    Method(TREES, REFERENCE, lambda fold, seed, _: fit_trees(fold, seed)),
    Method(KERNEL, REFERENCE, lambda fold, seed, _: fit_kernel(fold, seed)),
    # The published manner, on standardised data: the scaling alone would not be covered.
    Method(SEP, REFERENCE, lambda fold, seed, epochs: fit_sep(fold, epochs, seed), standardised=True),
    Method(SEP_CLIPPED, REFERENCE, lambda fold, seed, epochs: fit_sep(fold, epochs, seed, 1.0), standardised=True),
    Method(MISMATCH, MISMATCHED, lambda fold, seed, epochs: fit_mismatched(fold, epochs, seed), standardised=True),
)


def on_split(place: int, name: str, number: int, data_dir: Path, seed: int, epochs: int) -> Row:
    """One method on one split."""
    method, data = METHODS[place], regression_set(name, data_dir)
    fold = data.standardised(number) if method.standardised else data.fold(number)
    return _row(method, fold, 100 * seed + number, epochs)


def compared(names_and_epochs: dict[str, int], data_dir: Path, seed: int) -> tuple[Row, ...]:
    """All sets, methods and splits, in fresh processes: threads of JAX do not survive a fork."""
    wanted = [
        (name, place, number) for name in names_and_epochs for place in range(len(METHODS)) for number in range(SPLITS)
    ]
    # What takes longest first, so that it does not run alone at the end: the largest set, and methods that are last.
    order = sorted(wanted, key=lambda job: (job[0] != "protein", -job[1]))
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = {
            (name, place, number): pool.submit(on_split, place, name, number, data_dir, seed, names_and_epochs[name])
            for name, place, number in order
        }
        return merged(jobs[key].result() for key in wanted)


def compared_on_teacher(seed: int) -> tuple[Row, ...]:
    """A small public stand-in without data: one teacher, the methods that compile nothing."""
    fold = teacher(600, 3, seed)
    quick = [one for one in METHODS if one.name in (NATURAL, DP_LINEAR) and one.relation == REPLACE.relation.value]
    return tuple(_row(method, fold, seed, 1) for method in quick)


def merged(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows of single splits, averaged."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.method, row.scaling, row.relation), []).append(row)
    made = []
    for group in groups.values():
        mean, spread = averaged([row.scores for row in group])
        errors = tuple(row.scores.rmse for row in group)
        made.append(replace(group[0], scores=mean, spread=spread, errors=errors))
    return tuple(made)


def _row(method: Method, fold: Fold, seed: int, epochs: int) -> Row:
    fitted = method.fit(fold, seed, epochs)
    scores = scored(fold, fitted.mean, fitted.variance)
    scaling = "declared bounds" if fold.covered else "scaling not covered"
    epsilon = certified(fitted.specs) if fitted.specs else None
    return Row(fold.name, method.name, method.kind, scaling, method.relation, epsilon, scores, 0.0, (scores.rmse,))
