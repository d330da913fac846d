"""Release folders for the tests of pages: kept draws with named columns, one last iterate, Gaussians."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sordino.accounting.evaluate import as_json, explain
from sordino.core.spec import Spec, read_spec
from sordino.core.spec.instance import NamedModel
from sordino.data import Boolean, Category, Feature, Number, Schema, Target
from sordino.ledger import Entry, Ledger
from sordino.ledger.release import StoredRelease, write_release
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior
from sordino.models.base import describe_model
from sordino.models.families.classification import Logistic
from sordino.models.families.regression import GaussianLinear, Huber, PoissonRegression

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = '<script>alert("x")</script>'
FORMULA = "=HYPERLINK(A1)"
DELTA = 1e-5


def columns(names: tuple[str, ...], records: int, **changes: Any) -> Schema:
    features = tuple(Feature(name, Number(0.0, 1.0)) for name in names)
    target = Target("readmitted", Boolean())
    made = Schema(records=records, features=features, target=target, intercept=True, description="A clinic's table.")
    return replace(made, **changes)


def spec_named(name: str) -> Spec:
    return read_spec(EXAMPLES / "specs" / f"{name}.json")


def release_of(spec: Spec, arrays: dict[str, Any], kind: str = "kept-iterates", **changes: Any) -> StoredRelease:
    answers = explain(spec, DELTA)
    assert answers.tightest is not None
    release = StoredRelease(
        kind, spec, answers.tightest, DELTA, True, arrays, model=NamedModel("logistic"), answers=as_json(answers)
    )
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


def coefficients(family: str = "logistic", **changes: Any) -> StoredRelease:
    """A fit by bounded influence: draws of known mean and covariance, with a prior-dominated column among them."""
    names = ("intercept", "age", "days", "smoker", "ward=surgery")
    features = (
        Feature("age", Number(0.0, 110.0)),
        Feature("days", Number(0.0, 60.0)),
        Feature("smoker", Boolean()),
        Feature("ward", Category(("medicine", "surgery"))),
    )
    counted = family in ("linear", "robust", "poisson")
    target = Target("cost", Number(0.0, 100.0)) if counted else Target("readmitted", Boolean())
    schema = Schema(records=5000, features=features, target=target, intercept=True)
    half, middle = (50.0, 50.0) if family in ("linear", "robust") else (1.0, 0.0)
    deviations = np.array([0.1, 0.15, 0.2, 0.06, 0.6])
    parts = np.array([np.diag(share * deviations**2) for share in SHARES])
    half_of_draws = np.random.default_rng(5).standard_normal((1000, 5))
    draws = np.array(MEANS) + np.concatenate([half_of_draws, -half_of_draws]) * deviations
    posterior = CoefficientPosterior(
        family,
        names,
        ("",),
        np.array([0, 1, 2, 3, 5]),
        draws,
        np.full(2000, 1 / 2000),
        parts,
        half * np.array([[1, 1 / 55, 1 / 30, 1, 1], [0, -1, -1, 0, 0], [middle / half, 0, 0, 0, 0]]),
        residual_scale=0.3 if family in ("linear", "robust") else 0.0,
        dispersion=0.2 if family == "poisson" else 0.0,
    )
    spec = spec_named("message-passing-rounds")
    task, model = MODELS[family]
    settings = {"task": task, "method": "bounded-influence", "labels": [False, True], **posterior.settings}
    release = release_of(spec, posterior.arrays, "noised-sums", schema=schema, settings=settings)
    release = replace(release, model=describe_model(model))
    return replace(release, **changes)


MODELS = {
    "linear": ("regression", GaussianLinear(noise_precision=1.0)),
    "robust": ("robust-regression", Huber(threshold=1.0)),
    "logistic": ("classification", Logistic()),
    "poisson": ("count-regression", PoissonRegression(rate_cap=100.0, count_cap=100.0)),
}
# Of `coefficients`: posterior means, and for each coefficient the shares that are sampling, privacy and prior.
MEANS = (-0.5, 0.9, 0.1, 0.4, 0.5)
SHARES = np.array([[0.7, 0.7, 0.5, 0.9, 0.1], [0.28, 0.28, 0.45, 0.09, 0.3], [0.02, 0.02, 0.05, 0.01, 0.6]])


def written(folder: Path, name: str, release: StoredRelease) -> Path:
    return write_release(folder / name, release)


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The folder with another release.json."""
    document = json.loads((folder / "release.json").read_text())
    change(document)
    (folder / "release.json").write_text(json.dumps(document))
    return folder


def charged(book: Ledger, release: StoredRelease) -> tuple[StoredRelease, Entry]:
    """The release with the receipt of its debit, and the entry."""
    entry = book.debit(release.bound, release.spec)
    words = {"dataset": book.budget.dataset, "entry": entry.sequence, "digest": entry.digest}
    return replace(release, ledger=words), entry
