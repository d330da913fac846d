"""Release folders for the tests of pages: kept draws with named columns, one last iterate, Gaussians."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sordino.accounting.evaluate import explain
from sordino.core.spec import Spec, read_spec
from sordino.core.spec.instance import NamedModel
from sordino.data import BooleanTarget, Feature, Number, Schema, Target
from sordino.ledger.release import StoredRelease, write_release

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = '<script>alert("x")</script>'
FORMULA = "=HYPERLINK(A1)"
DELTA = 1e-5


def columns(names: tuple[str, ...], records: int, **changes: Any) -> Schema:
    made = Schema(
        records=records,
        features=tuple(Feature(name, Number(0.0, 1.0)) for name in names),
        target=Target("readmitted", BooleanTarget()),
        intercept=True,
        description="A clinic's table.",
    )
    return replace(made, **changes)


def spec_named(name: str) -> Spec:
    return read_spec(EXAMPLES / "specs" / f"{name}.json")


def release_of(spec: Spec, arrays: dict[str, Any], kind: str = "kept-iterates", **changes: Any) -> StoredRelease:
    bound = explain(spec, DELTA).tightest
    assert bound is not None
    release = StoredRelease(kind, spec, bound, DELTA, True, arrays, model=NamedModel("logistic"))
    return replace(release, **changes)


def kept_draws(**changes: Any) -> StoredRelease:
    """A posterior of named coefficients: an intercept, two hostile names, and plain ones."""
    spec = spec_named("kept-draws")
    names = (HOSTILE, FORMULA, "age", "prior visits", "deductible")
    names = (*names, *(f"column {place}" for place in range(spec.dim)))[: spec.dim - 1]
    draws = np.random.default_rng(1).normal(np.linspace(-1.0, 1.5, spec.dim), 0.3, (4, 15, spec.dim))
    schema = columns(names, spec.n)
    return replace(release_of(spec, {"draws": draws.astype(np.float32)}, schema=schema), **changes)


def last_iterate(**changes: Any) -> StoredRelease:
    spec = spec_named("cyclic-last-iterate")
    draws = np.linspace(-1, 1, spec.dim, dtype=np.float32)[None, None]
    return replace(release_of(spec, {"draws": draws}, "last-iterate"), **changes)


def gaussians(**changes: Any) -> StoredRelease:
    spec = spec_named("message-passing-rounds")
    arrays = {"means": np.linspace(-2, 2, 6), "deviations": np.linspace(0.1, 0.6, 6)}
    return replace(release_of(spec, arrays, "variational"), **changes)


def written(folder: Path, name: str, release: StoredRelease) -> Path:
    return write_release(folder / name, release)
