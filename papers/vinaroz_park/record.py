"""The paper's algorithms on the regression sets: every setting and split at once, recorded split by split.

    python -m papers.vinaroz_park.record --data-dir DIR --out FOLDER

A set and a part (messages: EP, SEP, DP-SEP; variational: VI, DP-VI, point estimates) is one file; a file that is
complete is not run again, so a run that is stopped goes on where it was. `sordino reproduce --afresh` makes all.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from scipy import special

from papers.framework.item import Options
from papers.framework.records import Record
from papers.framework.records import keep as registered
from papers.vinaroz_park import printed, variational
from papers.vinaroz_park.printed import Setting
from papers.vinaroz_park.published import CLIPS, TABLES_6_AND_7, VariationalSettings
from papers.vinaroz_park.sets import SPLITS, YEAR, RegressionSet, regression_set
from papers.vinaroz_park.variational import ADAM, AVERAGED, DP_VI, DP_VI_CORRECTED, POINT, READINGS, VI, Reading
from sordino.core.atomic_write import write_file
from sordino.mechanisms.messages import Messages, Prior, Refinement
from sordino.models.message_passing.gaussians import GaussianFamily
from sordino.models.message_passing.sites import GammaPrecision, NetworkSite

Array = NDArray[np.float64]
FOLDER = Path(__file__).with_name("recorded")
SETS = ("wine_red", "kin8nm", "power", "naval", "protein")
# Passes over the records: not published; 40 is what probabilistic backpropagation is usually given.
PASSES = 40
MARKS = (1, 2, 5, 10, 20, 40)
GAMMAS = (10.0, 100.0, 1000.0)
# The least precision after a repair, and the hidden units of Section 6.2.
FLOOR = 1e-2
HIDDEN = {"protein": 100, "year": 100}
_WIDEST = 16
# Noise over the clip for epsilon 1 with Table 7's batches and passes, Poisson batches, add-remove.
SIGMA_FOR_ONE = {"naval": 3.69, "kin8nm": 4.44, "power": 5.76, "wine_red": 6.28, "protein": 2.71}
_PREDICTIVE_DRAWS = 100


@dataclass(frozen=True, eq=False)
class Problem:
    """The splits of a set, each standardised by its own training records as the paper does, stacked."""

    name: str
    hidden: int
    X: Array
    y: Array
    test_rows: Array
    test_y: Array
    units: Array

    @property
    def records(self) -> int:
        """Training records of a split."""
        return self.X.shape[1]

    def padded(self, features: int) -> "Problem":
        """The same with columns of zeros, as a constant column is after scaling, up to so many features."""
        wider = ((0, 0), (0, 0), (0, features - self.X.shape[2]))
        return replace(self, X=np.pad(self.X, wider), test_rows=np.pad(self.test_rows, wider))


def problem(data: RegressionSet, splits: int, hidden: int | None = None) -> Problem:
    """So many splits of a set."""
    folds = [data.standardised(number) for number in range(splits)]
    X, y, test_rows, test_y, units = (
        np.stack([getattr(fold, name) for fold in folds]) for name in ("X", "y", "test_rows", "test_y", "unit")
    )
    return Problem(data.name, hidden or HIDDEN.get(data.name, 50), X, y, test_rows, test_y, units)


def scores(asked: Problem, mean: Array, variance: Array) -> dict[str, Array]:
    """Each metric, (lanes, splits), of Gaussian predictions (lanes, splits, rows) in standardised units.

    `trimmed` is the error without the hundredth of the test records that is worst.
    """
    mean, variance = np.asarray(mean, np.float64), np.maximum(np.asarray(variance, np.float64), 1e-300)
    gap, deviation, unit = np.abs(asked.test_y - mean), np.sqrt(variance), asked.units
    with np.errstate(over="ignore", invalid="ignore"):
        density = -0.5 * (gap / deviation) ** 2 - np.log(deviation) - 0.5 * math.log(2.0 * math.pi)
        kept = np.sort(gap, axis=-1)[..., : max(1, int(0.99 * gap.shape[-1]))]
        return {
            "rmse": unit * np.sqrt(np.mean(gap**2, axis=-1)),
            "log_likelihood": np.mean(density, axis=-1) - np.log(unit),
            "half": np.mean(gap <= special.ndtri(0.75) * deviation, axis=-1),
            "ninety": np.mean(gap <= special.ndtri(0.95) * deviation, axis=-1),
            "trimmed": unit * np.sqrt(np.mean(kept**2, axis=-1)),
        }


@dataclass(frozen=True)
class Recorded:
    """A lane: what ran, its scores on every split after the last pass, and the errors after earlier ones."""

    dataset: str
    method: str
    reading: str
    clip: float | None
    epsilon: float | None
    passes: int
    scores: dict[str, list[float]]
    errors: dict[str, list[float]]

    def values(self, metric: str) -> Array:
        """One metric on every split."""
        return np.array(self.scores[metric], np.float64)


Progress = Callable[[str], None]
# Given what there is so far, so that a run that is stopped has it.
Keep = Callable[[list[Recorded]], None]


def run_messages(
    asked: Problem,
    *,
    passes: int = PASSES,
    clips: tuple[float, ...] = CLIPS,
    gammas: tuple[float, ...] = GAMMAS,
    seed: int = 0,
    progress: Progress = lambda _: None,
    keep: Keep = lambda _: None,
) -> list[Recorded]:
    """EP, SEP and DP-SEP in every reading, one record at a time."""
    chosen = printed.settings(asked.records, passes, clips, gammas=gammas)

    def made(found: dict[int, dict[str, Array]]) -> list[Recorded]:
        return [
            recorded(asked, one.name, _gamma(one, asked.records), k, found, _clip(one), one.epsilon)
            for k, one in enumerate(chosen)
        ]

    with jax.enable_x64(True):
        site, family, prior = network(asked)
        first = printed.start_vectors(family, prior, len(asked.X), 1.0, seed)
        lanes, state = printed.started(chosen, first, jnp.asarray(asked.X), jnp.asarray(asked.y))
        rows = jnp.asarray(asked.test_rows)
        found: dict[int, dict[str, Array]] = {}
        for number in range(1, passes + 1):
            key = jax.random.fold_in(jax.random.key(seed), number)
            orders = printed.shuffled(np.random.default_rng([seed, number]), asked.records, len(asked.X))
            state = jax.block_until_ready(printed.one_pass(site, family, FLOOR, lanes, prior, state, orders, key))
            if number in MARKS or number == passes:
                answer = predictions(site, family, state.theta, rows)
                found[number] = scores(asked, *map(np.asarray, answer))
                keep(made(found))
            progress(f"{asked.name}: pass {number} of {passes}")
    return made(found)


def network(asked: Problem) -> tuple[NetworkSite, GaussianFamily, jax.Array]:
    """The site of a set's network, its family, and the prior: independent weights of variance 1."""
    site, features = NetworkSite(asked.hidden, GammaPrecision(6.0, 6.0)), asked.X.shape[2]
    return site, site.family(features), Messages(site, Prior(), Refinement(), features).prior_vector


@partial(jax.jit, static_argnums=(0, 1))
def predictions(
    site: NetworkSite, family: GaussianFamily, theta: jax.Array, rows: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Means and variances of every lane and split; compiled once for all sets of one shape."""
    over_splits = jax.vmap(lambda one, X: site.predict(family.moments(one), X))
    return lax.map(lambda lane: over_splits(lane, rows), theta)


def _gamma(one: Setting, records: int) -> str:
    """The reading in words: gamma of equation (5)."""
    return "-" if one.remembers else "gamma = N" if one.gain == 1.0 else f"gamma = {one.gain * records:g}"


def _clip(one: Setting) -> float | None:
    return one.clip if math.isfinite(one.clip) else None


def readings(name: str) -> tuple[tuple[Reading, ...], tuple[Reading, ...]]:
    """What runs on a set: without privacy, and with it."""
    given, tuned = TABLES_6_AND_7[name], SIGMA_FOR_ONE[name]
    silent = [Reading(VI, optimiser, given.learning_rate, given.beta) for optimiser in READINGS]
    # Table 5 has no settings: batches and passes as for VI, and usual steps for squares that are not weighted.
    silent += [Reading(POINT, ADAM, 1e-3, 0.0)]
    silent += [Reading(POINT, AVERAGED, step / given.noise_precision, 0.0) for step in (0.01, 0.1)]
    private = [
        Reading(label, optimiser, given.learning_rate, given.beta, given.clip, noise)
        for label, noise in ((DP_VI, given.noise_multiplier), (DP_VI_CORRECTED, tuned))
        for optimiser in READINGS
    ]
    return tuple(silent), tuple(private)


def run_variational(
    asked: Problem,
    *,
    passes: int | None = None,
    batch: int | None = None,
    most_draws: int = 20,
    seed: int = 0,
    progress: Progress = lambda _: None,
    keep: Keep = lambda _: None,
) -> list[Recorded]:
    """VI and DP-VI with the printed settings, and point estimates."""
    given, made = TABLES_6_AND_7[asked.name], []
    count, size = passes or given.epochs, batch or given.batch
    X, y, rows = (jnp.asarray(part, jnp.float32) for part in (asked.X, asked.y, asked.test_rows))
    del keep  # minutes at most
    for chosen, printed_draws in zip(readings(asked.name), (given.draws, given.private_draws), strict=True):
        draws = min(printed_draws, most_draws)
        model = variational.Model(given.noise_precision, given.prior_precision)
        lanes, state = variational.started(chosen, size, len(asked.X), asked.hidden, X.shape[2], seed)
        eps = np.random.default_rng(seed).standard_normal((_PREDICTIVE_DRAWS, *state.weights.inner.shape[2:]))
        eps, found = jnp.asarray(eps, jnp.float32), {}
        for number in range(1, count + 1):
            key = jax.random.fold_in(jax.random.key(seed), number)
            orders = variational.batches(np.random.default_rng([seed, number]), asked.records, len(X), size)
            state = variational.one_pass(draws, model, lanes, X, y, orders, state, key)
            if number in (1, 10, 40, 100) or number == count:
                mean, variance = variational.predicted(model, lanes, state.weights, rows, eps)
                found[number] = scores(asked, np.asarray(mean), np.asarray(variance))
                progress(f"{asked.name}: variational, pass {number} of {count}")
        made += [
            recorded(asked, one.name, _optimiser(one, given), k, found, one.clip if one.noise else None)
            for k, one in enumerate(chosen)
        ]
    return made


def _optimiser(one: Reading, given: VariationalSettings) -> str:
    """The reading in words, with the step where the paper prints none."""
    scale = given.noise_precision if one.optimiser == AVERAGED else 1.0
    return f"{one.optimiser}, step {one.step * scale:g}" if one.name == POINT else one.optimiser


def recorded(
    asked: Problem,
    method: str,
    reading: str,
    lane: int,
    found: dict[int, dict[str, Array]],
    clip: float | None = None,
    epsilon: float | None = None,
) -> Recorded:
    """The row of one lane, given the scores of all after some passes."""
    last = max(found)
    last_scores = {metric: _digits(values[lane]) for metric, values in found[last].items()}
    errors = {str(number): _digits(values["rmse"][lane]) for number, values in found.items()}
    return Recorded(asked.name, method, reading, clip, epsilon, last, last_scores, errors)


def _digits(values: Array) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


# Files.


def save(path: Path, rows: list[Recorded], where: str = "unfinished", seconds: float = 0.0) -> None:
    """Write one file whole or not at all; diverged scores are written as null."""
    listed = [one.__dict__ for one in rows]
    text = json.dumps(_without_infinities({"where": where, "seconds": round(seconds, 1), "rows": listed}))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, (text.replace('{"dataset"', '\n{"dataset"') + "\n").encode())


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinities(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_infinities(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load(path: Path) -> tuple[list[Recorded], str]:
    """The rows of a file, and the machine that they are from; a score that was not finite is a nan."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for row in kept["rows"]:
        for part in ("scores", "errors"):
            row[part] = {key: [math.nan if v is None else v for v in values] for key, values in row[part].items()}
        rows.append(Recorded(**row))
    return rows, kept["where"]


PARTS: dict[str, Callable[..., list[Recorded]]] = {"variational": run_variational, "messages": run_messages}


@cache
def in_short(part: str, data_dir: Path, seed: int) -> tuple[Recorded, ...]:
    """The same way through files, splits, scaling and runs on slices of the sets, which may be generated ones.

    Slices are padded to the widest set, so that they share what is compiled; two pages share what was run.
    """
    short: dict[str, Any] = {
        "messages": {"clips": CLIPS[::5], "gammas": ()},
        "variational": {"batch": 50, "most_draws": 2},
    }
    problems = (problem(regression_set(name, data_dir).sliced(), 2, hidden=4).padded(_WIDEST) for name in SETS)
    return tuple(row for one in problems for row in PARTS[part](one, passes=2, seed=seed, **short[part]))


def rows_for(options: Options, part: str) -> tuple[list[Recorded], str]:
    """Every row of a part and where it was run: in short, or as recorded."""
    if options.quick:
        return list(in_short(part, options.data_folder(", ".join(SETS)), options.seed)), "slices of the sets' shapes"
    found = [load(FOLDER / f"{name}-{part}.json") for name in SETS]
    places = dict.fromkeys(one for _, one in found)
    return [row for rows, _ in found for row in rows], f"recorded on {', '.join(places)}"


def record_set(name: str, part: str, data_dir: Path | None, folder: Path, splits: int = SPLITS, seed: int = 0) -> None:
    """Run one part on one set and write its file, unless the folder holds it; minutes on a GPU."""
    path = folder / f"{name}-{part}.json"
    if path.is_file() or data_dir is None:
        return
    begun, where = time.perf_counter(), jax.devices()[0].device_kind

    def told(text: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - begun:7.1f} s  {text}\n")
        sys.stderr.flush()

    given, unfinished = problem(regression_set(name, data_dir), splits), path.with_suffix(".unfinished")
    rows = PARTS[part](given, seed=seed, progress=told, keep=partial(save, unfinished))
    save(path, rows, where, time.perf_counter() - begun)
    unfinished.unlink(missing_ok=True)


_PAGES = {
    "messages": ("vinaroz-park-clipping", "vinaroz-park-regression"),
    "variational": ("vinaroz-park-regression",),
}
for _name in SETS:
    for _part, _pages in _PAGES.items():
        registered(
            Record(
                f"vinaroz_park/recorded/{_name}-{_part}.json",
                _pages,
                partial(record_set, _name, _part),
                reads=(f"{_name}.parquet", f"splits/{_name}.npz"),
                gpu=True,
            )
        )


def main() -> None:
    """Run what is not in the folder yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=(*SETS, YEAR))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for part in asked.parts:
        for name in asked.sets:
            record_set(name, part, asked.data_dir, asked.out, asked.splits, asked.seed)


if __name__ == "__main__":
    main()
