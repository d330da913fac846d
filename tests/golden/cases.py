"""Seeded runs of every way to make a release: what each adds noise to, and what leaves."""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import sordino
from sordino.auditing.replay.port import Recorder, Recording
from sordino.data import declared_lines
from sordino.estimators.fit import ESTIMATORS
from sordino.fitting.problem import Sources

RELATIONS = ("replace-one", "add-remove")
DELTA = 1e-6
RECORDS = 240

_LINES = "a: -1..1\nb: p|q|r\nflag: yes/no"
_TARGETS = {
    "linear": "y: -5..5",
    "robust": "y: -5..5",
    "logistic": "y: yes/no",
    "classes": "y: u|v|w",
    "poisson": "y: 0..20",
    "cox": "y: yes/no",
    "network-regressor": "y: -5..5",
    "network-classifier": "y: yes/no",
}
_ALL = ("records", "units", "weights")
_RECORDS = ("records",)
# Task, method, protections that it has, settings.
FITS: tuple[tuple[str, str, tuple[str, ...], Mapping[str, Any]], ...] = (
    ("linear", "bounded-influence", _ALL, {}),
    ("robust", "bounded-influence", _ALL, {}),
    ("logistic", "bounded-influence", _ALL, {}),
    ("classes", "bounded-influence", _ALL, {}),
    ("poisson", "bounded-influence", _ALL, {"exposure": "a"}),
    ("cox", "bounded-influence", _RECORDS, {"time": "t", "bins": (0.0, 1.0, 2.0, 4.0)}),
    ("linear", "ridge", _RECORDS, {}),
    ("logistic", "ridge", _RECORDS, {}),
    ("linear", "constant", _RECORDS, {}),
    ("robust", "constant", _RECORDS, {}),
    ("logistic", "constant", _RECORDS, {}),
    ("classes", "constant", _RECORDS, {}),
    ("network-regressor", "natural", _RECORDS, {"hidden": (3,)}),
    ("network-classifier", "natural", _RECORDS, {"hidden": (3,)}),
    ("network-regressor", "dp-vi", _RECORDS, {"hidden": (3,)}),
    ("network-classifier", "dp-vi", _RECORDS, {"hidden": (3,)}),
    ("network-regressor", "constant", _RECORDS, {"hidden": (3,)}),
    ("mixture", "em", _RECORDS, {"components": 2}),
    ("linear", "dp-vi", _RECORDS, {}),
    ("logistic", "dp-vi", _RECORDS, {}),
    ("mixture", "dp-vi", _RECORDS, {"components": 2}),
    ("linear", "dp-sep", _RECORDS, {}),
    ("logistic", "dp-sep", _RECORDS, {}),
    ("mixture", "dp-sep", _RECORDS, {"components": 2}),
    ("network-regressor", "dp-sep", _RECORDS, {"hidden": (3,)}),
)


class Golden(NamedTuple):
    """A run of a case: noised calls as (law, shape, scale, digest of the statistic), and what leaves by name."""

    calls: list[list[Any]]
    left: dict[str, Any]


def digest(value: Any) -> str:
    """Sixteen digits that name bytes, an array or words."""
    if isinstance(value, np.ndarray):
        value = f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    return hashlib.sha256(value if isinstance(value, bytes) else str(value).encode()).hexdigest()[:16]


def _schema(task: str, protection: str) -> Any:
    lines = [f"records = {RECORDS}", _LINES.replace("-1..1", "0.5..2") if task == "poisson" else _LINES]
    lines += ["t: 0..4"] * (task == "cox")
    lines += [f"{_TARGETS[task]} [target]"] if task in _TARGETS else []
    lines += ["who: unit of 3"] * (protection == "units") + ["s: weight 0.2..4 mean 1"] * (protection == "weights")
    return declared_lines("\n".join(lines))


def _table(task: str, protection: str) -> dict[str, Any]:
    """Targets that follow the columns, records beyond the bounds, and units of one to five records."""
    rng = np.random.default_rng(11)
    n = 3 * RECORDS if protection == "units" else RECORDS
    a, b, flag = rng.uniform(-1.1, 1.1, n), rng.choice(["p", "q", "r"], n), rng.choice(["yes", "no"], n)
    score = 0.8 * a + 0.6 * (b == "q") - 0.5 * (flag == "yes")
    noisy = score + rng.logistic(size=n)
    target = {
        "logistic": np.where(noisy > 0, "yes", "no"),
        "classes": np.array(["u", "v", "w"])[np.digitize(noisy, [-0.7, 0.9])],
        "poisson": rng.poisson(np.exp(0.5 + 0.5 * score)).astype(float),
    }
    target["network-classifier"] = target["cox"] = target["logistic"]
    columns: dict[str, Any] = {"a": 1.25 + 0.7 * a if task == "poisson" else a, "b": b, "flag": flag}
    if task == "cox":
        columns["t"] = rng.exponential(2.0, n)
    if task in _TARGETS:
        columns["y"] = target.get(task, np.clip(2.0 * score + rng.standard_t(3, n), -6, 6))
    if protection == "units":
        columns["who"] = np.char.add(
            "p", np.append(np.arange(RECORDS), rng.integers(0, RECORDS, n - RECORDS)).astype(str)
        )
    if protection == "weights":
        columns["s"] = rng.uniform(0.1, 4.5, n)
    return columns


def _estimator(task: str, method: str, protection: str, relation: str, settings: Mapping[str, Any]) -> Any:
    kind = ESTIMATORS["logistic" if task == "classes" else task]
    return kind(
        epsilon=4.0, delta=DELTA, relation=relation, schema=_schema(task, protection), method=method, **settings
    )


def _left(release: Any) -> dict[str, Any]:
    """What a release holds: every array, and the digests of its description."""
    certificate = repr(sorted(str(one) for one in release.bound.certificates))
    words = {"spec": release.spec.to_json(), "certificate": certificate, "epsilon": repr(release.epsilon)}
    return dict(release.arrays) | words


def recorded(run: Callable[[Any], dict[str, Any]], recorder: Recorder) -> Golden:
    """A run with noise from a fixed seed, and its noised calls."""
    recording: Recording = recorder.record(run, 5)
    calls = [
        [str(seen.call.law), list(np.shape(seen.call.statistic)), float(np.max(seen.call.scale)), digest(seen.answer)]
        for seen in recording.calls
    ]
    return Golden(calls, dict(recording.left))


def _fit(
    task: str, method: str, protection: str, relation: str, settings: Mapping[str, Any]
) -> Callable[[Recorder], Golden]:
    def run(fresh: Any) -> dict[str, Any]:
        model = _estimator(task, method, protection, relation, settings)
        model._sources = lambda: Sources(None, fresh)
        model.fit(_table(task, protection))
        return _left(model.release_)

    return lambda recorder: recorded(run, recorder)


def _answers(release: Any) -> Golden:
    text = json.dumps(release.to_dict() if hasattr(release, "to_dict") else str(release), sort_keys=True, default=str)
    return Golden([], {"answers": text})


def _released(task: str = "logistic", method: str = "bounded-influence", relation: str = "replace-one") -> Any:
    model = _estimator(task, method, "records", relation, {})
    model.random_state = 3
    return model.fit(_table(task, "records")).release_


def _look(relation: str) -> Callable[[Recorder], Golden]:
    questions = ["count", "histogram: a", "mean: a", "quantiles: a", "table: b, flag", "missing: a"]
    return lambda _: Golden(
        [],
        _left(
            sordino.explore.look(
                _table("linear", "records"),
                questions,
                epsilon=2.0,
                delta=DELTA,
                relation=relation,
                schema=_schema("linear", "records"),
                random_state=4,
            ).release
        ),
    )


def _explored(relation: str) -> Iterator[tuple[str, Callable[[Recorder], Golden]]]:
    table, schema = _table("logistic", "records"), _schema("logistic", "records")
    budget = {"epsilon": 3.0, "delta": DELTA, "random_state": 4}
    yield f"look {relation}", _look(relation)
    yield (
        f"check {relation}",
        lambda _: _answers(sordino.explore.check(_released(relation=relation), table, **budget)),
    )
    yield (
        f"compare {relation}",
        lambda _: _answers(
            sordino.explore.compare(
                {name: _released(method=name, relation=relation) for name in ("bounded-influence", "ridge")},
                table,
                **budget,
            )
        ),
    )
    yield (
        f"choose {relation}",
        lambda _: _answers(
            sordino.explore.choose(
                "logistic",
                table,
                ["y ~ a", "y ~ a + flag"],
                schema=schema,
                relation=relation,
                **budget | {"epsilon": 9.0},
            )
        ),
    )


def _run_cases() -> Iterator[tuple[str, Callable[[Recorder], Golden]]]:
    """Chains by scheme, custom models and a network; imported late because they need JAX and NumPyro."""
    from tests.golden.run_cases import CHAIN_SCHEMES, chain, custom, network

    for relation in RELATIONS:
        for scheme in CHAIN_SCHEMES if relation == "replace-one" else ("full", "poisson"):
            yield f"chain {scheme} {relation}", lambda _, s=scheme, r=relation: Golden([], _left(chain(s, r)))
        for method in ("natural", "variational", "loss"):
            yield f"custom {method} {relation}", lambda _, m=method, r=relation: Golden([], _left(custom(m, r)))
        yield f"network {relation}", lambda _, r=relation: Golden([], _left(network(r)))


def cases() -> dict[str, Callable[[Recorder], Golden]]:
    """Every case by its name."""
    found: dict[str, Callable[[Recorder], Golden]] = {}
    for relation in RELATIONS:
        for task, method, protections, settings in FITS:
            for protection in protections:
                name = f"fit {task} {method} {relation} {protection}"
                found[name] = _fit(task, method, protection, relation, settings)
        found |= dict(_explored(relation))
    return found | dict(_run_cases())


def run_case(name: str, recorder: Recorder) -> dict[str, Any]:
    """One case as the table keeps it: calls, digests, and for arrays their first numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        golden = cases()[name](recorder)
    left = {
        key: {"digest": digest(value), "first": [float(one) for one in np.ravel(value)[:4]]}
        if isinstance(value, np.ndarray)
        else {"digest": digest(value)}
        for key, value in golden.left.items()
    }
    return {"calls": golden.calls, "left": left}
