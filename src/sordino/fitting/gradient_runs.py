"""`fit_chain` and `fit_network`: runs of noisy gradients with the noise that an epsilon needs, charged and released."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import Explanation, at_delta, theorem_named
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.training_canaries import check_planting, train_and_audit
from sordino.core.bound import NOT_COVERED, Certificate, Relation, RelationWord, View, exactly_computed
from sordino.core.spec import Spec
from sordino.core.spec.document import check_plain
from sordino.core.validate import InputError, one_of, refuse, whole_number
from sordino.fitting.array_schema import NonPrivateWarning
from sordino.fitting.charge import RowAccess, RunContents, charged_run
from sordino.fitting.problem import Sources
from sordino.ledger.release.document import StoredRelease, chain_arrays
from sordino.mechanisms.chain import claims as hidden
from sordino.mechanisms.chain import release as exact_average
from sordino.mechanisms.chain.claims import ChainPlan
from sordino.mechanisms.chain.release import LipschitzFunction, averaged_function, parameters
from sordino.mechanisms.chain.run import run as run_chain
from sordino.mechanisms.networks.integer_sums import check_examples
from sordino.mechanisms.networks.jaxpr import Loss
from sordino.mechanisms.networks.training import QUERY, Trained, Training, check_run, train
from sordino.models.base import Model, describe_model
from sordino.models.custom.base import finite
from sordino.models.registry import JaxModel
from sordino.noise import lattice
from sordino.noise.integer_sums import checked_rows
from sordino.noise.randomness import Randomness


def fit_chain(
    spec: Spec | str | Path,
    model: Model | Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
    features: object,
    target: object,
    *,
    epsilon: float,
    delta: float | None = None,
    function: LipschitzFunction | None = None,
    ledger: object = None,
    random_state: int | None = None,
) -> StoredRelease:
    """Fit a custom model by the noisy gradient chain of a spec, with the noise that an epsilon needs.

    Noise is calibrated and certified from the spec, the ledger is debited, and only then are rows used.

    Args:
        spec: a noisy gradient run; its noise is where the search for the least noise begins.
        model: a `Model`, or a loss `loss(theta, x, y)` of one record on a flat vector of problem.dim parameters.
        features: an array of numbers, one row for each record; NaN counts as 0.
        target: an array with one number for each record.
        epsilon: what the release may cost; 0 asks for a total variation distance of at most delta.
        delta: at which it is certified; absent: the spec's.
        function: what a spec of view average averages; absent: the parameters.
        ledger: a `Ledger` or its path, which is debited or refuses; absent: nothing is debited.
        random_state: absent: secure randomness; a whole number makes the fit reproducible and its release NON-PRIVATE.

    Returns:
        A `StoredRelease` with the released arrays, the spec that ran and its bound; `write_release` writes it.

    Raises:
        InputError: for an epsilon that no noise reaches, or rows that do not fit the spec.
        LedgerRefusal: where the budget does not cover the release; no row was read then.

    Examples:
        >>> import numpy as np
        >>> import sordino
        >>> from sordino.mechanisms import dp_sgd
        >>> from sordino.core.spec import Batch, Problem
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> def loss(theta, x, y):
        ...     return (x @ theta - y) ** 2
        >>> problem = Problem(n=500, dim=2, gradient_sensitivity=2.0, gradient_bound=1.0)
        >>> spec = dp_sgd(
        ...     problem, step_size=0.3, batch=Batch("full"), noise_multiplier=1.0, clip_norm=1.0, steps=40,
        ...     relation="replace-one", view="last-iterate", delta=1e-5,
        ... )
        >>> release = sordino.fit_chain(spec, loss, X, X @ [1.0, -1.0], epsilon=2.0, random_state=0)
        >>> bool(np.abs(release.arrays["draws"] - [1.0, -1.0]).max() < 0.2), release.epsilon <= 2.0
        (True, True)
    """
    given, asked = at_delta(spec, delta)
    own = model if isinstance(model, Model) else JaxModel(model, given.dim)
    plan = calibrate(given, epsilon, asked, "noise").explanation
    if given.view is View.AVERAGE and function is None:
        function = parameters(given.dim)
    averaged_function(given, function)
    chain_line(plan, own)  # a rounding that is too small is refused here
    for name, values in (("features", features), ("target", target)):
        check_typed(name, values)
    sources = Sources(random_state)

    def run(access: RowAccess) -> RunContents[None]:
        # A number that is not finite counts as a public one, because a refusal would reveal it.
        given = {"features": features, "target": target}
        rows = access.read(lambda: checked_rows(*(finite_numbers(name, values) for name, values in given.items())))
        kind, arrays = chain_arrays(run_chain(plan.spec, own, *rows, sources.fresh(), function=function))
        return RunContents(kind, arrays, None, floating_point=chain_line(plan, own), model=describe_model(own))

    return charged_run(plan, run, words="this chain", epsilon=epsilon, ledger=ledger, sources=sources)[0]


def check_typed(name: str, values: object) -> None:
    """Refuse what has no type of its own: that of a list would follow from its numbers."""
    if not (hasattr(values, "dtype") and hasattr(values, "shape")):
        wanted = f"Expected {name} to be an array, whose type is public, got a {type(values).__name__}"
        follows = "whose type would follow from private numbers"
        raise InputError(f"{wanted}, {follows}; make it an array of a declared type.")


def finite_numbers(name: str, values: object) -> np.ndarray:
    """The numbers as models get them; that some were changed is said in a warning marked NON-PRIVATE."""
    given, found = np.asarray(values), finite(values)
    if not np.array_equal(given, found):
        words = f"NON-PRIVATE: some numbers of {name} are NaN, infinite or too large. NaN counts as 0, others as "
        words += "the largest number that reaches a model. This was seen in private rows: keep it with them."
        warnings.warn(words, NonPrivateWarning, stacklevel=2)
    return found


def chain_line(explanation: Explanation, model: Model) -> Certificate:
    """What a chain's release says about floating point.

    Covered are bounds that take roundings as shifts, and epsilons that hold for any noised sums: theorems about
    `noised-sums` too read nothing of what follows a noised sum. A bound on hidden iterates of a spec without
    `algorithm.rounding` is about real numbers, and so is everything about stable noise and unbounded gradients.
    """
    spec, plan = explanation.spec, ChainPlan(explanation.spec, model)
    if plan.lattice is None:
        return NOT_COVERED
    if plan.chain.rounding is not None:
        return exactly_computed(exact_average.COVERED if spec.view is View.AVERAGE else hidden.COVERED)
    of_sums = [one for bound, one in explanation.bounds if "noised-sums" in theorem_named(bound.theorem).scope.kinds]
    # No more above the epsilon that the release states than two ways of rounding up one number are apart.
    covered = bool(of_sums) and min(of_sums) <= explanation.epsilon * (1.0 + 1e-13)
    return exactly_computed(lattice.COVERED) if covered else NOT_COVERED


NETWORK = "network"
MEASURED = "measured"
BINS = 15


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A private network: its release and weights, averaged where they are, the whole run, and its lower bound."""

    release: StoredRelease
    params: Any
    trained: Trained
    audit: LowerBound | None


def fit_network(
    loss: Loss,
    params: object,
    examples: object,
    *,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    rounds: int,
    clip: float,
    training: Training,
    sampling: Mapping[str, object] | None = None,
    records: int | None = None,
    canaries: int = 0,
    measure: Callable[[Any], Mapping[str, Any]] | None = None,
    ledger: object = None,
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
    plan = training_plan(
        f"{QUERY} {query}", public + canaries, related, rounds, sampling, clip, epsilon=epsilon, delta=delta
    )
    check_run(plan.spec, loss, params, examples, training)
    if canaries:
        check_planting(plan.spec, training)
    sources = Sources(random_state)
    randomness = sources.fresh()  # a source that is missing is refused before the debit

    def run(access: RowAccess) -> RunContents[tuple[Trained, LowerBound | None]]:
        arguments = (plan.spec, loss, params, examples, randomness, training)
        trained, lower = access.read(lambda: train_with_canaries(arguments, canaries, delta, random_state))
        found = jax.tree_util.tree_leaves_with_path(trained.averaged)
        arrays = {f"leaf_{place:03d}": np.asarray(leaf) for place, (_, leaf) in enumerate(found)}
        settings: dict[str, object] = {"leaves": [jax.tree_util.keystr(path) for path, _ in found]}
        if trained.kept:
            points = [jax.tree.leaves(one) for one in trained.kept]
            arrays |= {f"kept_{place:03d}": np.stack(values) for place, values in enumerate(zip(*points, strict=True))}
        if measure is not None:
            settings |= measurements(measure, trained if trained.kept else trained.averaged)
        return RunContents(NETWORK, arrays, (trained, lower), floating_point=trained.floating_point, settings=settings)

    paid = {"words": "this training", "epsilon": epsilon, "ledger": ledger}
    release, (trained, lower) = charged_run(plan, run, sources=sources, **paid)
    return FittedNetwork(release, trained.averaged, trained, lower)


def training_plan(
    query: str,
    records: int,
    relation: Relation,
    rounds: int,
    sampling: Mapping[str, object] | None,
    clip: float,
    *,
    epsilon: float,
    delta: float,
) -> Explanation:
    """Rounds of noised sums of clipped gradients with the least noise that an epsilon allows, every iterate seen."""
    algorithm = {"kind": "noised-sums", "query": query, "records": records, "rounds": rounds, "contribution": clip}
    algorithm |= {"sampling": dict(sampling or {"scheme": "full"}), "noise_multiplier": 1.0}
    stated = {"relation": relation.value, "view": "all-iterates", "delta": delta}
    return calibrate(Spec.from_dict({"algorithm": algorithm, **stated}), epsilon, delta, "noise").explanation


def _public_number(records: int | None, relation: Relation, examples: object) -> int:
    """The declared number of examples; how many there are is public under replace-one alone."""
    if relation is Relation.ADD_REMOVE:
        if records is None:
            raise InputError("Under add-remove the number of examples is private. Declare records, a public number.")
        return whole_number("records", records)
    there = check_examples(examples)
    if records not in (None, there):
        raise refuse("records", "to be the number of examples under replace-one", records)
    return there


def measurements(measure: Callable[[Any], Any], given: Any) -> dict[str, Any]:
    """What `measure` says of what was learned; where it fails nothing, because the release is paid for."""
    try:
        found = {MEASURED: {name: np.asarray(value).tolist() for name, value in dict(measure(given)).items()}}
        check_plain(found)
    except Exception as error:  # of the caller's function
        words = f"measure must return named numbers. It raised {type(error).__name__}: {str(error)[:200]}"
        warnings.warn(f"{words}. The release has no measurements.", stacklevel=2)
        return {}
    return found


def train_with_canaries(
    arguments: tuple[Spec, Loss, Any, Any, Randomness, Training], canaries: int, delta: float, seed: int | None
) -> tuple[Trained, LowerBound | None]:
    """A training run, and the lower bound of the canaries that are planted in it."""
    if not canaries:
        return train(*arguments), None
    return train_and_audit(*arguments, AuditOptions(delta=delta, seed=seed), canaries=canaries)


def classification_quality(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, object]:
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
    inside = [place == one for one in np.unique(place)]
    bins = [{"rows": int(b.sum()), "sure": float(sure[b].mean()), "right": float(right[b].mean())} for b in inside]
    gap = sum(one["rows"] * abs(one["sure"] - one["right"]) for one in bins) / len(labels)
    return {
        "accuracy": float(right.mean()),
        "log-loss": float(-np.log(np.maximum(given[np.arange(len(labels)), labels], 1e-12)).mean()),
        "expected calibration error": float(gap),
        "rows": len(labels),
        "bins": bins,
    }
