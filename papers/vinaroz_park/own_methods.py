"""Our own certified methods on the paper's regression sets: none of them is an algorithm of the paper.

    python -m papers.vinaroz_park.own_methods --data-dir DIR [--keep FILE] [--write FILE]

makes the recorded rows again: 350 fits in processes of their own, on as many cores as it may use. `--keep` names a
file of finished fits, one a line, so that a run that is stopped goes on where it was.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge

from papers.framework.records import Record, keep
from papers.vinaroz_park import chosen, tuning
from papers.vinaroz_park.budget import Budget, certified, scored
from papers.vinaroz_park.networks import Fitted, fit_linear, fit_natural, fit_network
from papers.vinaroz_park.propagation import fit_rounds
from papers.vinaroz_park.sets import Fold, regression_set
from sordino.core.bound import Relation
from sordino.core.whole_files import write_file
from sordino.noise.randomness import cores

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


METRICS = ("rmse", "log_likelihood", "half", "ninety")


@dataclass(frozen=True)
class Splits:
    """The same as it is recorded, every score on every split."""

    dataset: str
    method: str
    kind: str
    relation: str
    epsilon: float | None
    rmse: tuple[float, ...]
    log_likelihood: tuple[float, ...]
    half: tuple[float, ...]
    ninety: tuple[float, ...]

    @property
    def row(self) -> Row:
        """Means over splits, and the standard deviation of the error, with the digits that a page shows."""
        error, spread = float(f"{fmean(self.rmse):.4g}"), float(f"{np.std(self.rmse):.2g}")
        density, half, ninety = (round(fmean(getattr(self, name)), 3) for name in METRICS[1:])
        of = (self.dataset, self.method, self.kind, self.relation, self.epsilon)
        return Row(*of, error, spread, density, half, ninety, len(self.rmse))


NAME = "vinaroz_park/recorded/own-methods.json"
FILE = Path(__file__).with_name("recorded") / "own-methods.json"


def own_rows() -> tuple[Row, ...]:
    """What was recorded on the real sets."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    lists = ({name: tuple(row[name]) for name in METRICS} for row in kept)
    return tuple(Splits(**row | scores).row for row, scores in zip(kept, lists, strict=True))


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


def measured(names: tuple[str, ...], data_dir: Path, seed: int, lines: Path | None = None) -> tuple[Splits, ...]:
    """All sets, methods and splits, in fresh processes: threads of JAX do not survive a fork."""
    wanted = [(name, place, number) for name in names for place in range(len(METHODS)) for number in range(SPLITS)]
    known = _kept(lines)
    # What takes longest first, so that it does not run alone at the end.
    order = sorted((job for job in wanted if job not in known), key=lambda job: (job[0] != "protein", -job[1]))
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
        jobs = {
            pool.submit(on_split, place, name, number, data_dir, seed): (name, place, number)
            for name, place, number in order
        }
        for done in as_completed(jobs):
            known[jobs[done]] = done.result()
            if lines is not None:
                with lines.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([*jobs[done], asdict(done.result())]) + "\n")
    return gathered(names, known)


def _kept(lines: Path | None) -> dict[tuple[str, int, int], Row]:
    if lines is None or not lines.is_file():
        return {}
    rows = (json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines())
    return {(name, place, number): Row(**row) for name, place, number, row in rows}


def in_short(names: tuple[str, ...], data_dir: Path, seed: int) -> tuple[Row, ...]:
    """The methods that compile nothing, on slices of the sets, which may be generated ones, in a tenth of the steps."""

    def natural(fold: Fold, seed: int) -> Fitted:
        setting = chosen.natural()
        return fit_natural(replace(setting, steps=setting.steps // 10), fold, REPLACE, seed)

    quick = (Method(NATURAL, PRIVATE, natural, REPLACE.relation.value), _private(DP_LINEAR, REPLACE))
    folds = [regression_set(name, data_dir).sliced().fold(0) for name in names]
    return tuple(_row(method, fold, seed) for fold in folds for method in quick)


def gathered(names: tuple[str, ...], fits: Mapping[tuple[str, int, int], Row]) -> tuple[Splits, ...]:
    """Fits of single splits, a method and set each, with the digits that are recorded; epsilon rounds up."""
    made = []
    for name in names:
        for place, method in enumerate(METHODS):
            group = [fits[name, place, number] for number in range(SPLITS)]
            epsilons = [row.epsilon for row in group if row.epsilon is not None]
            epsilon = math.ceil(max(epsilons) * 1e4) / 1e4 if epsilons else None
            scores = (tuple(float(f"{getattr(row, metric):.6g}") for row in group) for metric in METRICS)
            made.append(Splits(name, method.name, method.kind, method.relation, epsilon, *scores))
    return tuple(made)


def _row(method: Method, fold: Fold, seed: int) -> Row:
    fitted = method.fit(fold, seed)
    found = scored(fold, fitted.mean, fitted.variance)
    epsilon = certified(fitted.specs) if fitted.specs else None
    scores = (found.rmse, 0.0, found.log_likelihood, found.half, found.ninety)
    return Row(fold.name, method.name, method.kind, method.relation, epsilon, *scores, 1)


SETS = ("naval", "kin8nm", "power", "wine_red", "protein")


def write(path: Path, rows: tuple[Splits, ...]) -> None:
    """One line a method and set."""
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    write_file(path, f"[\n{lines}\n]\n".encode())


def _made(data_dir: Path | None, folder: Path) -> None:
    if data_dir is not None:
        write(folder / FILE.name, measured(SETS, data_dir, 0))


def _chosen(_: Path | None, folder: Path) -> None:
    tuning.write(folder / chosen.FILE.name, cores())


# The settings come first: what is measured with them depends on them.
keep(Record("vinaroz_park/chosen.json", ("private-regression",), _chosen))
keep(Record(NAME, ("private-regression", "vinaroz-park-regression"), _made, reads=SETS))


def main() -> None:
    """Write the recorded rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", type=Path, default=FILE)
    given = parser.parse_args()
    write(given.write, measured(SETS, given.data_dir, 0, given.keep))


if __name__ == "__main__":
    main()
