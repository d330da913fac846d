"""Fit a network of one's own: calibrate, certify, debit, train, audit in the same run, and measure on public rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import as_json
from sordino.algorithm.training.clipped import check_examples
from sordino.algorithm.training.train import QUERY, Trained, Training, train
from sordino.algorithm.training.uses import Loss
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.one_run.training import train_and_audit
from sordino.core.bound import Relation, with_floating_point
from sordino.core.spec import Spec
from sordino.core.validate import InputError, one_of, refuse, whole_number
from sordino.estimators.charged import after_debit, as_ledger, debited, known_bounds, named_in_ledger
from sordino.estimators.situation import Sources
from sordino.ledger.release import StoredRelease

NETWORK = "network"
MEASURED = "measured"
BINS = 15


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A private network.

    Attributes:
        release: for `write_release`: averaged weights, spec, bound, and what was measured of it.
        params: the released weights as a tree, the running average where there is one.
        trained: everything else that the run gave, such as kept points.
        audit: the lower bound of the same run; None where it had no canaries.
    """

    release: StoredRelease
    params: Any
    trained: Trained
    audit: LowerBound | None


def fit_network(
    loss: Loss,
    params: Any,
    examples: Any,
    *,
    epsilon: float,
    delta: float,
    relation: str,
    rounds: int,
    clip: float,
    training: Training,
    sampling: Mapping[str, Any] | None = None,
    records: int | None = None,
    canaries: int = 0,
    measure: Callable[[Any], Mapping[str, Any]] | None = None,
    trainable: Callable[[str], bool] | None = None,
    ledger: Any = None,
    random_state: int | None = None,
    query: str = "of a network",
) -> FittedNetwork:
    """Train a network with the least noise that an epsilon allows, and release its weights.

    Args:
        loss: `loss(params, example)` of one example, a number.
        params: a tree of arrays to start from: public, or drawn without the data.
        examples: a tree of arrays, examples along the first axis.
        epsilon: what the release may cost.
        delta: at which it is certified.
        relation: "add-remove" or "replace-one".
        rounds: steps.
        clip: the longest contribution of an example to a step.
        training: the optimiser and other public choices.
        sampling: batches as a spec writes them, such as {"scheme": "poisson", "size": 4096}; absent: all examples.
        records: the public number of examples; under replace-one absent: as many as there are.
        canaries: how many are planted to audit this very run; they count as records.
        measure: given the released weights (for kept points, `Trained`), what they do on public rows: named numbers
            for the report. It must not read the examples.
        trainable: told the path of a leaf, whether it is trained; absent: all are.
        ledger: a `Ledger` or its path, which is debited or refuses; absent: nothing is debited.
        random_state: absent: secure randomness; a whole number makes the run reproducible and NON-PRIVATE.
        query: what the gradients are of, in words for people.

    Returns:
        A `FittedNetwork`.

    Raises:
        InputError: for an epsilon that no noise reaches, or a loss or rows that do not fit.
        LedgerRefusal: where the budget does not cover the release; no row was read then.

    Examples:
        >>> import numpy as np
        >>> import optax
        >>> import sordino
        >>> X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
        >>> def loss(params, example):
        ...     x, y = example
        ...     return (x @ params["w"] - y) ** 2
        >>> fitted = sordino.fit_network(
        ...     loss, {"w": np.zeros(2, np.float32)}, (X, X @ np.array([1.0, -1.0], np.float32)), epsilon=2.0,
        ...     delta=1e-5, relation="add-remove", records=400, rounds=30, clip=0.5,
        ...     training=sordino.Training(optax.sgd(0.5)), random_state=0,
        ... )
        >>> bool(np.abs(fitted.params["w"] - [1.0, -1.0]).max() < 0.3), fitted.release.epsilon <= 2.0
        (True, True)
    """
    related = Relation(one_of("relation", relation, tuple(Relation)))
    public = _public_number(records, related, examples)
    described = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noised-sums",
                "query": f"{QUERY} {query}",
                "records": public + canaries,
                "rounds": rounds,
                "sampling": dict(sampling or {"scheme": "full"}),
                "contribution": clip,
                "noise_multiplier": 1.0,
            },
            "relation": related.value,
            "view": "all-iterates",
            "delta": delta,
        }
    )
    plan = calibrate(described, epsilon, delta, "noise").explanation
    bound = plan.tightest
    if bound is None:
        raise InputError("Expected a run that a theorem gives a finite epsilon, got one that none does.")
    sources, account = Sources(random_state), as_ledger(ledger)
    sources.ready()
    entry = None if account is None else account.debit(known_bounds(plan), plan.spec)
    arguments = (plan.spec, loss, params, examples, sources.fresh(), training)
    if canaries:
        options = AuditOptions(delta=delta, seed=random_state)
        trained, lower = after_debit(
            lambda: train_and_audit(*arguments, options, canaries=canaries, trainable=trainable), entry
        )
    else:
        trained, lower = after_debit(lambda: train(*arguments, trainable=trainable), entry), None
    arrays, leaves = stored_leaves(trained.averaged)
    settings: dict[str, Any] = {"leaves": leaves}
    if trained.kept:
        points = [jax.tree.leaves(one) for one in trained.kept]
        arrays |= {f"kept_{place:03d}": np.stack(values) for place, values in enumerate(zip(*points, strict=True))}
    if measure is not None:
        settings[MEASURED] = dict(measure(trained if trained.kept else trained.averaged))
    release = StoredRelease(
        kind=NETWORK,
        spec=plan.spec,
        bound=with_floating_point(bound, trained.floating_point),
        delta=plan.delta,
        private=sources.private,
        arrays=arrays,
        settings=settings,
        answers=as_json(plan),
        ledger=debited(account, entry),
    )
    return FittedNetwork(named_in_ledger(account, entry, release), trained.averaged, trained, lower)


def _public_number(records: int | None, relation: Relation, examples: Any) -> int:
    """The declared number of examples; how many there are is public under replace-one alone."""
    if relation is Relation.ADD_REMOVE:
        if records is None:
            raise InputError(
                "Expected records, a public number, under add-remove, where the number of examples is private, got "
                "none; declare it."
            )
        return whole_number("records", records)
    there = check_examples(examples)
    if records not in (None, there):
        raise refuse("records", "to be the number of examples under replace-one", records)
    return there


def stored_leaves(params: Any) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Arrays under plain names, and the path of each in the tree."""
    found = jax.tree_util.tree_leaves_with_path(params)
    arrays = {f"leaf_{place:03d}": np.asarray(leaf) for place, (_, leaf) in enumerate(found)}
    return arrays, [jax.tree_util.keystr(path) for path, _ in found]


def classification_quality(probabilities: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
    """Accuracy, log-loss and calibration on rows that are public; probabilities have shape (rows, classes).

    The expected calibration error is the mean, over rows, of the gap between how sure a prediction is and how often
    such predictions are right, in 15 bins of equal width (Naeini et al. 2015).

    >>> found = classification_quality(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))
    >>> found["accuracy"], round(found["expected calibration error"], 3)
    (1.0, 0.15)
    """
    given, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    sure, right = given.max(axis=1), given.argmax(axis=1) == labels
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    bins = [
        {
            "rows": int((place == one).sum()),
            "sure": float(sure[place == one].mean()),
            "right": float(right[place == one].mean()),
        }
        for one in np.unique(place)
    ]
    gap = sum(one["rows"] * abs(one["sure"] - one["right"]) for one in bins) / len(labels)
    chosen = np.maximum(given[np.arange(len(labels)), labels], 1e-12)
    return {
        "accuracy": float(right.mean()),
        "log-loss": float(-np.log(chosen).mean()),
        "expected calibration error": float(gap),
        "rows": len(labels),
        "bins": bins,
    }
