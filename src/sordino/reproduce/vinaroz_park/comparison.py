"""Every method on every split of one regression set, private ones with their certificate."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
    splits: int


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


def compared(name: str, data_dir: Path, seed: int, epochs: int) -> tuple[Row, ...]:
    """All rows of one set: five splits, three for the published way and under add-remove."""
    data = regression_set(name, data_dir)
    folds = [data.fold(number) for number in range(5)]
    rows = [_row(method, folds, seed) for method in (*private_methods(REPLACE), *references(epochs))]
    shown_too = [one for one in private_methods(ADD_REMOVE) if one.name in (DP_WHITENED, DP_LINEAR)]
    rows += [_row(method, folds[:3], seed) for method in shown_too]
    standardised = [data.standardised(number) for number in range(3)]
    rows += [_row(method, standardised, seed) for method in published_way(epochs)]
    return tuple(rows)


def compared_on_teacher(seed: int) -> tuple[Row, ...]:
    """A small public stand-in without data: one teacher, the quicker methods."""
    folds = [teacher(1000, 4, seed, noise=0.15)]
    quick = [one for one in private_methods(REPLACE) if one.name in (DP_LINEAR, DP_POINT)]
    return tuple(_row(method, folds, seed) for method in (*quick, *published_way(2)[-1:]))


def _row(method: Method, folds: Iterable[Fold], seed: int) -> Row:
    found, name, specs, covered = [], "", (), True
    for number, fold in enumerate(folds):
        fitted = method.fit(fold, 100 * seed + number)
        found.append(scored(fold, fitted.mean, fitted.variance))
        name, specs, covered = fold.name, fitted.specs, fold.covered
    mean, spread = averaged(found)
    scaling = "declared bounds" if covered else "scaling not covered"
    epsilon = certified(specs) if specs else None
    return Row(name, method.name, method.kind, scaling, method.relation, epsilon, mean, spread, len(found))
