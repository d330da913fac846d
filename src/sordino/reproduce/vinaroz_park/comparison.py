"""Every method on every split of one regression set, private ones with their certificate."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from sordino.core.relation import Relation
from sordino.reproduce.vinaroz_park import networks, propagation, statistics
from sordino.reproduce.vinaroz_park.budget import Budget, certified
from sordino.reproduce.vinaroz_park.folds import Fold, regression_set
from sordino.reproduce.vinaroz_park.networks import Fitted
from sordino.reproduce.vinaroz_park.scores import Scores, averaged, scored
from sordino.reproduce.vinaroz_park.teacher import teacher

REPLACE, ADD_REMOVE = Budget(1.0, Relation.REPLACE_ONE), Budget(1.0, Relation.ADD_REMOVE)
LINEAR_ROUNDS = 4
SPLITS = 5
# References without noise, add-remove and the published way run on so many splits only.
_FEWER = 2


@dataclass(frozen=True)
class Method:
    """A way to predict: its name, what it is, whether it uses published standardisation, and how it runs."""

    name: str
    kind: str
    fit: Callable[[Fold, int], Fitted]
    standardised: bool = False
    relation: str = "-"


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
DP_SEP, DP_POINT, DP_WHITENED, DP_VI, DP_LINEAR = (
    "DP-SEP, rounds",
    "DP-Adam, point",
    "DP-Adam, whitened rows",
    "DP-VI",
    "private linear, whitened in rounds",
)
SEP, SEP_CLIPPED, MISMATCH = "SEP", "SEP clipped, C = 1", "mismatched DP-SEP"


def private_methods(budget: Budget) -> tuple[Method, ...]:
    """All private methods for one budget."""
    rounds, relation = propagation.RoundsSetting(), budget.relation.value
    fits: dict[str, Callable[[Fold, int], Fitted]] = {
        DP_SEP: lambda fold, seed: propagation.fit_rounds(rounds, fold, budget, seed),
        DP_POINT: lambda fold, seed: networks.fit_network(networks.POINT, fold, budget, seed),
        DP_WHITENED: lambda fold, seed: networks.fit_network(networks.WHITENED, fold, budget, seed),
        DP_VI: lambda fold, seed: networks.fit_network(networks.GAUSSIAN, fold, budget, seed),
        DP_LINEAR: lambda fold, seed: fit_linear(fold, budget, seed),
    }
    return tuple(Method(name, PRIVATE, fit, relation=relation) for name, fit in fits.items())


def references(epochs: int) -> tuple[Method, ...]:
    """What the private methods are compared with: none of these is private."""
    rounds, silent = propagation.RoundsSetting(), networks.WHITENED.silent()
    fits: dict[str, Callable[[Fold, int], Fitted]] = {
        SEP: lambda fold, seed: propagation.fit_sep(fold, epochs, seed),
        f"{DP_SEP}, no noise": lambda fold, seed: propagation.fit_rounds(rounds, fold, REPLACE, seed, noised=False),
        f"{DP_POINT}, no noise": lambda fold, seed: networks.fit_network(networks.POINT.silent(), fold, REPLACE, seed),
        f"{DP_WHITENED}, no noise": lambda fold, seed: networks.fit_network(silent, fold, REPLACE, seed),
    }
    return tuple(Method(name, REFERENCE, fit) for name, fit in fits.items())


def published_way(epochs: int) -> tuple[Method, ...]:
    """Rows in the published manner, on standardised data: the scaling alone would not be covered."""
    return (
        Method(SEP, REFERENCE, lambda fold, seed: propagation.fit_sep(fold, epochs, seed), True),
        Method(SEP_CLIPPED, REFERENCE, lambda fold, seed: propagation.fit_sep(fold, epochs, seed, 1.0), True),
        Method(MISMATCH, MISMATCHED, lambda fold, seed: propagation.fit_mismatched(fold, epochs, seed), True),
    )


def fit_linear(fold: Fold, budget: Budget, seed: int) -> Fitted:
    """Private linear regression whose rows are whitened round by round."""
    found = statistics.linear_fit(budget, fold.X, fold.y, LINEAR_ROUNDS, seed)
    return Fitted(*found.predict(fold.test_rows), found.specs)


def on_split(name: str, number: int, data_dir: Path, seed: int, epochs: int) -> tuple[Row, ...]:
    """The rows of one split: private methods and SEP, and on the first splits everything else."""
    data = regression_set(name, data_dir)
    fold, methods = data.fold(number), [*private_methods(REPLACE), *references(epochs)[:1]]
    if number < _FEWER:
        shown_too = [one for one in private_methods(ADD_REMOVE) if one.name in (DP_WHITENED, DP_LINEAR)]
        methods += [*references(epochs)[1:], *shown_too]
    rows = [_row(method, fold, seed, number) for method in methods]
    if number < _FEWER:
        rows += [_row(method, data.standardised(number), seed, number) for method in published_way(epochs)]
    return tuple(rows)


def compared(names_and_epochs: dict[str, int], data_dir: Path, seed: int) -> tuple[Row, ...]:
    """All sets and splits, in fresh processes: threads of JAX do not survive a fork."""
    # The largest set first, so that it does not run alone at the end.
    order = sorted(names_and_epochs, key=lambda name: name != "protein")
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = {
            (name, number): pool.submit(on_split, name, number, data_dir, seed, names_and_epochs[name])
            for name in order
            for number in range(SPLITS)
        }
        return merged(
            row for name in names_and_epochs for number in range(SPLITS) for row in jobs[name, number].result()
        )


def compared_on_teacher(seed: int) -> tuple[Row, ...]:
    """A small public stand-in without data: one teacher, the quicker methods."""
    fold = teacher(1000, 4, seed, noise=0.15)
    quick = [one for one in private_methods(REPLACE) if one.name in (DP_LINEAR, DP_POINT)]
    return tuple(_row(method, fold, seed, 0) for method in (*quick, *published_way(2)[-1:]))


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


def _row(method: Method, fold: Fold, seed: int, number: int) -> Row:
    fitted = method.fit(fold, 100 * seed + number)
    scores = scored(fold, fitted.mean, fitted.variance)
    scaling = "declared bounds" if fold.covered else "scaling not covered"
    epsilon = certified(fitted.specs) if fitted.specs else None
    return Row(fold.name, method.name, method.kind, scaling, method.relation, epsilon, scores, 0.0, (scores.rmse,))
