"""Models of one's own: whether intervals of private variational inference hold, and what a step costs.

    python bench/own_models.py coverage --records 2000 --tables 400 [--processes 16] [--method sgld] [--keep FILE]
    python bench/own_models.py speed [--records 4096] [--out speed.json]

*Coverage.* A NumPyro regression with ten coefficients and a scale of residuals, epsilon 1, delta 1e-5, replace-one. For
each table coefficients are drawn from Normal(0, 0.5), the scale from LogNormal(-0.3, 0.4) and rows from the model; the
model's own priors are wider. Counted is how often the central intervals of a release hold the values that the table was
drawn with. A fit that is refused from its declared numbers is counted as refused. With `--keep` every table is a line
of that file as soon as it is there, and what the file holds already is counted and not drawn again.

*Speed.* Steps a second of `method="variational"` with a diagonal guide, of the same clipped inference written by hand
(vmapped gradients, clipped, noised by JAX, a scan), and of NumPyro's SVI without privacy in a scan; the same rows in
every step, a process of one thread for each, processor time, the three in turn. What is reported are ratios.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from kept_jobs import keep_results

LEVELS = (0.5, 0.9, 0.95)
COLUMNS = 10
CHAIN_CLIP = 8.0


def regression(x: Any, y: Any = None) -> None:
    """Ten coefficients and a scale of residuals."""
    import jax.numpy as jnp  # noqa: PLC0415  (a worker sets its threads first)
    import numpyro  # noqa: PLC0415
    import numpyro.distributions as dist  # noqa: PLC0415

    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(COLUMNS), 1.0).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, sigma), obs=y)


def drawn(records: int, seed: Sequence[int]) -> tuple[dict[str, Any], Any]:
    """A table, and the values it was drawn with."""
    generator = np.random.default_rng(seed)
    weights, sigma = 0.5 * generator.normal(size=COLUMNS), np.exp(0.4 * generator.normal() - 0.3)
    x = generator.normal(size=(records, COLUMNS))
    return {"x": x, "y": x @ weights + sigma * generator.normal(size=records)}, np.append(weights, sigma)


def one_table(records: int, epsilon: float, seed: int, method: str, number: int) -> dict[str, Any]:
    """Which intervals of one fit hold, and how wide they are."""
    import sordino  # noqa: PLC0415

    data, truth = drawn(records, [seed, number])
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "relation": "replace-one"}
    # Chains take a public clip: a whitened gradient of this model is about the root of 11 long.
    chosen: dict[str, Any] = {} if method == "auto" else {"method": method, "options": {"clip": CHAIN_CLIP}}
    try:
        release = sordino.fit(regression, data, **budget, **chosen, random_state=seed * 100_003 + number)
    except sordino.InputError as error:
        return {"refused": str(error)}
    ends = [[(line.low, line.high) for line in release.summary(level).lines] for level in LEVELS]
    held = [[bool(low <= value <= high) for (low, high), value in zip(some, truth, strict=True)] for some in ends]
    means = np.array([line.estimate for line in release.summary(0.5).lines])
    return {
        "held": held,
        "width": [float(high - low) for low, high in ends[1]],
        "error": (means - truth).tolist(),
        "sigma": float(truth[-1]),
        "unsettled": any("on its way" in caution for caution in release.cautions),
    }


def kept_table(*given: Any) -> dict[str, Any]:
    """A line of what is kept: which table, and what was found."""
    return {"asked": list(given), **one_table(*given)}


def coverage(given: argparse.Namespace, records: int, keep: Path) -> dict[str, Any]:
    """Over many tables; the error of a share is that of the tables' means, because a table's intervals depend."""
    asked = [(records, given.epsilon, given.seed, given.method, number) for number in range(given.tables)]
    before = _read(keep)
    keep_results(kept_table, [one for one in asked if one not in before], keep, given.processes, given.seconds)
    held = _read(keep)
    return summed_up(asked[0][:4], [held[one] for one in asked if one in held])


def _read(keep: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    lines = keep.read_text("utf-8").splitlines() if keep.exists() else []
    return {tuple(row["asked"]): row for row in map(json.loads, lines)}


def summed_up(asked: tuple[Any, ...], found: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares of intervals that hold, with their errors."""
    kept = [one for one in found if "held" in one]
    answer = dict[str, Any](zip(("records", "epsilon", "seed", "method"), asked, strict=True)) | {"tables": len(found)}
    answer["refused"] = len(found) - len(kept)
    if not kept:
        return {**answer, "refusal": [one["refused"] for one in found[:1]]}
    held = np.array([one["held"] for one in kept], float)
    for part, chosen in (("all", slice(None)), ("weights", slice(0, COLUMNS)), ("sigma", slice(COLUMNS, None))):
        means = held[:, :, chosen].mean(axis=2)
        answer[part] = {
            "held": [round(100 * each, 2) for each in means.mean(axis=0)],
            "error": [round(100 * each / np.sqrt(len(kept)), 2) for each in means.std(axis=0)],
        }
    scale = np.array([one["sigma"] for one in kept])[:, None]
    width = np.array([one["width"] for one in kept]) / scale
    answer["width_90_over_sigma"] = float(np.median(width[:, :COLUMNS]))
    errors = np.array([one["error"] for one in kept])[:, :COLUMNS] / scale
    answer["root_mean_square_error_over_sigma"] = float(np.sqrt(np.mean(errors**2)))
    answer["unsettled"] = sum(one["unsettled"] for one in kept)
    return answer


def speed(records: int, rounds: int = 256) -> dict[str, Any]:
    """Steps a second of processor time, and their ratios; the best of five turns of each, in a process of its own.

    Sordino switches off how XLA adds up fused sums; what is written by hand keeps XLA's own ways.
    """
    best = dict.fromkeys(WAYS, float("inf"))
    with ExitStack() as held:
        pools = {name: held.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for name in WAYS}
        for _ in range(5):
            for name, pool in pools.items():
                best[name] = min(best[name], pool.submit(turn, name, records, rounds).result())
    found = {name: rounds / seconds for name, seconds in best.items()}
    return {
        "records": records,
        "steps_per_second": {name: round(rate, 1) for name, rate in found.items()},
        "over_by_hand": round(found["sordino"] / found["by hand"], 3),
        "over_numpyro": round(found["sordino"] / found["numpyro"], 3),
    }


@cache
def _way(name: str, records: int, rounds: int) -> Callable[[], Any]:
    import jax  # noqa: PLC0415

    made = WAYS[name](drawn(records, [0, 0])[0], rounds)
    jax.block_until_ready(made())
    return made


def turn(name: str, records: int, rounds: int) -> float:
    """Seconds of processor time of all rounds in one of the ways, compiled before; the best of three."""
    import jax  # noqa: PLC0415

    way, found = _way(name, records, rounds), []
    for _ in range(3):
        begun = time.process_time()
        jax.block_until_ready(way())
        found.append(time.process_time() - begun)
    return min(found)


def sordino_steps(data: dict[str, Any], rounds: int) -> Callable[[], Any]:
    """The rounds of a fit with a diagonal guide, noise drawn as for a release."""
    import jax.numpy as jnp  # noqa: PLC0415

    from sordino.core.spec import Spec  # noqa: PLC0415
    from sordino.mechanisms import SecureRandomness  # noqa: PLC0415
    from sordino.mechanisms.variational.custom_gradients import PrivateTable  # noqa: PLC0415
    from sordino.mechanisms.variational.evidence_bound import (  # noqa: PLC0415
        FactorisedGaussian,
        GuidedGradients,
        VariationalOptions,
    )
    from sordino.models.custom.base import pack, read_layout  # noqa: PLC0415
    from sordino.models.custom.numpyro_program import NumPyroProgram  # noqa: PLC0415
    from sordino.noise.lattice import in_doubles  # noqa: PLC0415

    layout = read_layout(data)
    model = NumPyroProgram(regression, layout)
    asked = GuidedGradients(model, VariationalOptions(FactorisedGaussian(), averaged=0.5))
    algorithm = {
        "kind": "noised-sums",
        "query": asked.name,
        "records": len(data["y"]),
        "rounds": rounds,
        "sampling": {"scheme": "full"},
        "contribution": 1.0,
        "noise_multiplier": 50.0,
        "options": {"step_size": 0.03},
    }
    run = {"algorithm": algorithm, "relation": "replace-one", "view": "all-iterates", "delta": 1e-5}
    spec, rows = Spec.from_dict(run), pack(layout, data)

    def made() -> Any:
        with in_doubles():
            table = PrivateTable.of(model, rows)
            state = asked.started(jnp.asarray(model.start(), jnp.float64), 5.0)
            return table.rounds(spec, asked, state, SecureRandomness())[0].phi

    return made


def hand_steps(data: dict[str, Any], rounds: int) -> Callable[[], Any]:
    """What one would write: gradients of every record by vmap, clipped in the guide's space, noised, Adam, a scan."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import optax  # noqa: PLC0415
    from jax.scipy.stats import norm  # noqa: PLC0415

    x, y = (jnp.asarray(data[name], jnp.float32) for name in ("x", "y"))
    size, records = COLUMNS + 1, len(y)
    adam = optax.adam(0.03)

    def point(phi: Any, standard: Any) -> Any:
        return phi[:size] + jnp.exp(phi[size:]) * standard

    def of_one(phi: Any, standard: Any, x: Any, y: Any) -> Any:
        theta = point(phi, standard)
        return -norm.logpdf(y, x @ theta[:COLUMNS], jnp.exp(theta[-1]))

    def prior(phi: Any, standard: Any) -> Any:
        theta = point(phi, standard)
        scale = norm.logpdf(jnp.exp(theta[-1])) + theta[-1]  # half-normal, up to a constant
        return -(norm.logpdf(theta[:COLUMNS]).sum() + scale) - phi[size:].sum()

    def step(carry: Any, key: Any) -> Any:
        phi, state = carry
        first, second = jax.random.split(key)
        standard = jax.random.normal(first, (size,))
        each = jax.vmap(jax.grad(of_one), in_axes=(None, None, 0, 0))(phi, standard, x, y) / 5.0
        each /= jnp.maximum(1.0, jnp.linalg.norm(each, axis=1, keepdims=True))
        noised = each.sum(axis=0) + 50.0 * jax.random.normal(second, (2 * size,))
        gradient = 5.0 * noised / records + jax.grad(prior)(phi, standard) / records
        updates, state = adam.update(gradient, state)
        return (phi + updates, state), None

    @jax.jit
    def scanned(phi: Any, key: Any) -> Any:
        return jax.lax.scan(step, (phi, adam.init(phi)), jax.random.split(key, rounds))[0][0]

    return lambda: scanned(jnp.zeros(2 * size), jax.random.key(0))


def svi_steps(data: dict[str, Any], rounds: int) -> Callable[[], Any]:
    """NumPyro's own, without privacy."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import numpyro  # noqa: PLC0415
    from numpyro.infer import SVI, Trace_ELBO  # noqa: PLC0415
    from numpyro.infer.autoguide import AutoDiagonalNormal  # noqa: PLC0415

    given = {name: jnp.asarray(values, jnp.float32) for name, values in data.items()}
    svi = SVI(regression, AutoDiagonalNormal(regression), numpyro.optim.Adam(0.03), Trace_ELBO())
    state = svi.init(jax.random.key(0), **given)

    def step(held: Any, _: Any) -> Any:
        return svi.update(held, x=given["x"], y=given["y"])[0], None

    @jax.jit
    def scanned(state: Any) -> Any:
        return jax.lax.scan(step, state, None, length=rounds)[0]

    return lambda: svi.get_params(scanned(state))


WAYS = {"sordino": sordino_steps, "by hand": hand_steps, "numpyro": svi_steps}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; `--out` writes the same."""
    parser = argparse.ArgumentParser(description="Coverage and speed of models of one's own.")
    parser.add_argument("what", choices=("coverage", "speed"))
    parser.add_argument("--records", type=int, nargs="+", default=[2000])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--method", choices=("auto", "sgld"), default="auto", help="of coverage")
    parser.add_argument("--seconds", type=float, default=1e9, help="no further table begins after that long")
    parser.add_argument("--keep", type=Path, help="a file that tables are kept in")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    # A worker is one thread, so that processes do not fight over cores.
    kept = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{kept} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    found = []
    for records in given.records:
        if given.what == "coverage":
            with TemporaryDirectory() as folder:
                one = coverage(given, records, given.keep or Path(folder) / "tables.jsonl")
        else:
            one = speed(records)
        print(json.dumps(one), flush=True)
        found.append(one)
        if given.out is not None:
            given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
