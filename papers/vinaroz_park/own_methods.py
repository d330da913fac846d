"""Our own certified methods on the paper's regression sets: none of them is an algorithm of the paper.

    python -m papers.vinaroz_park.own_methods --data-dir DIR [--keep FILE] [--write FILE]

makes the recorded rows again: 350 fits in processes of their own, a quarter of an hour of eight cores. `--keep` names a
file of finished fits, one a line, so that a run that is stopped goes on where it was.
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge

from papers.vinaroz_park import chosen
from papers.vinaroz_park.budget import Budget, certified, scored
from papers.vinaroz_park.networks import Fitted, fit_linear, fit_natural, fit_network
from papers.vinaroz_park.propagation import fit_rounds
from papers.vinaroz_park.sets import Fold, regression_set
from sordino.core.bound import Relation
from sordino.core.whole_files import write_file

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
    relation: str
    epsilon: float | None
    rmse: float
    spread: float
    log_likelihood: float
    half: float
    ninety: float
    splits: int


FILE = Path(__file__).with_name("recorded") / "own-methods.json"


def own_rows() -> tuple[Row, ...]:
    """What was recorded on the real sets."""
    return tuple(Row(**row) for row in json.loads(FILE.read_text(encoding="utf-8")))


PRIVATE, REFERENCE = "private", "not private"
NATURAL, DP_POINT, DP_WHITENED, DP_GAUSSIAN, ROUNDS, DP_LINEAR = NAMES = (
    "private natural gradients",
    "DP-Adam, point",
    "DP-Adam, whitened rows",
    "DP-Adam, Gaussian weights",
    "private full-batch rounds",
    "private linear, whitened in rounds",
)
# What `chosen` calls them.
KEYS = dict(zip(NAMES, ("natural", "point", "whitened", "gaussian", "rounds", "linear"), strict=True))
TREES, KERNEL = "extremely randomised trees", "kernel ridge"
PrivateFit = Callable[[Fold, Budget, int, bool], Fitted]
Fit = Callable[[Fold, int], Fitted]


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
    DP_GAUSSIAN: _network("gaussian"),
    ROUNDS: lambda fold, budget, seed, noised: fit_rounds(chosen.rounds(), fold, budget, seed, noised),
    DP_LINEAR: lambda fold, budget, seed, _: fit_linear(chosen.linear(), fold, budget, seed),
}


@dataclass(frozen=True)
class Method:
    """A row to be: how it runs on a split with a seed."""

    name: str
    kind: str
    fit: Fit
    relation: str = "-"


def _private(name: str, budget: Budget) -> Method:
    def fit(fold: Fold, seed: int) -> Fitted:
        return PRIVATE_FITS[name](fold, budget, seed, True)

    return Method(name, PRIVATE, fit, budget.relation.value)


def _silent(name: str) -> Method:
    def fit(fold: Fold, seed: int) -> Fitted:
        return PRIVATE_FITS[name](fold, REPLACE, seed, False)

    return Method(f"{name}, no noise", REFERENCE, fit)


METHODS: tuple[Method, ...] = (
    *(_private(name, REPLACE) for name in PRIVATE_FITS),
    *(_private(name, ADD_REMOVE) for name in (NATURAL, DP_GAUSSIAN, DP_LINEAR)),
    *(_silent(name) for name in (NATURAL, DP_POINT, ROUNDS)),
    Method(TREES, REFERENCE, fit_trees),
    Method(KERNEL, REFERENCE, fit_kernel),
)


def on_split(place: int, name: str, number: int, data_dir: Path, seed: int) -> Row:
    """One method on one split."""
    return _row(METHODS[place], regression_set(name, data_dir).fold(number), 100 * seed + number)


def compared(names: tuple[str, ...], data_dir: Path, seed: int, keep: Path | None = None) -> tuple[Row, ...]:
    """All sets, methods and splits, in fresh processes: threads of JAX do not survive a fork."""
    wanted = [(name, place, number) for name in names for place in range(len(METHODS)) for number in range(SPLITS)]
    known = _kept(keep)
    # What takes longest first, so that it does not run alone at the end.
    order = sorted((job for job in wanted if job not in known), key=lambda job: (job[0] != "protein", -job[1]))
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = {
            pool.submit(on_split, place, name, number, data_dir, seed): (name, place, number)
            for name, place, number in order
        }
        for done in as_completed(jobs):
            known[jobs[done]] = done.result()
            if keep is not None:
                with keep.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps([*jobs[done], asdict(done.result())]) + "\n")
    return merged(known[key] for key in wanted)


def _kept(keep: Path | None) -> dict[tuple[str, int, int], Row]:
    if keep is None or not keep.is_file():
        return {}
    rows = (json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines())
    return {(name, place, number): Row(**row) for name, place, number, row in rows}


def in_short(names: tuple[str, ...], data_dir: Path, seed: int) -> tuple[Row, ...]:
    """The methods that compile nothing, on slices of the sets, which may be generated ones, in a tenth of the steps."""

    def natural(fold: Fold, seed: int) -> Fitted:
        setting = chosen.natural()
        return fit_natural(replace(setting, steps=setting.steps // 10), fold, REPLACE, seed)

    quick = (Method(NATURAL, PRIVATE, natural, REPLACE.relation.value), _private(DP_LINEAR, REPLACE))
    folds = [regression_set(name, data_dir).sliced().fold(0) for name in names]
    return tuple(_row(method, fold, seed) for fold in folds for method in quick)


def merged(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows of single splits, averaged."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.method, row.relation), []).append(row)
    made = []
    for group in groups.values():
        scores = ("rmse", "log_likelihood", "half", "ninety")
        means = {name: fmean(getattr(row, name) for row in group) for name in scores}
        spread = float(np.std([row.rmse for row in group]))
        made.append(_in_digits(replace(group[0], spread=spread, splits=len(group), **means)))
    return tuple(made)


def _in_digits(row: Row) -> Row:
    """The row with the digits that are recorded, so that a page made from either is the same; epsilon rounds up."""
    certified_digits = None if row.epsilon is None else math.ceil(row.epsilon * 1e4) / 1e4
    rounded = {name: round(getattr(row, name), 3) for name in ("log_likelihood", "half", "ninety")}
    error, spread = float(f"{row.rmse:.4g}"), float(f"{row.spread:.2g}")
    return replace(row, epsilon=certified_digits, rmse=error, spread=spread, **rounded)


def _row(method: Method, fold: Fold, seed: int) -> Row:
    fitted = method.fit(fold, seed)
    found = scored(fold, fitted.mean, fitted.variance)
    epsilon = certified(fitted.specs) if fitted.specs else None
    scores = (found.rmse, 0.0, found.log_likelihood, found.half, found.ninety)
    return Row(fold.name, method.name, method.kind, method.relation, epsilon, *scores, 1)


def main() -> None:
    """Write the recorded rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", type=Path, default=FILE)
    given = parser.parse_args()
    sets = tuple(dict.fromkeys(row.dataset for row in own_rows()))
    rows = compared(sets, given.data_dir, 0, given.keep)
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    write_file(given.write, f"[\n{lines}\n]\n".encode())


if __name__ == "__main__":
    main()
