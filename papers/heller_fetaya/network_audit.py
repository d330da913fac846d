"""The audit of a network as Heller and Fetaya do it, Section V: an ensemble, a canary, and attacks on every epoch.

A canary is made against an ensemble of models of D, and may be chosen by trial: small fleets learn from every
candidate, and the one that shows most is taken. How fast a canary is learnt and how soon it is forgotten cannot be read
off models that have not seen it. Then a fleet is trained on D and on D', and on every epoch linear classifiers of a few
probabilities are taught by one half of it and counted on the other. Models of the ensemble and of the trials have
numbers of their own, share no randomness with the fleet that is attacked, and are thrown away: however the canary was
chosen by them, a bound from the attacked fleet holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import linalg, special

from papers.heller_fetaya.attack import cap
from papers.heller_fetaya.fleet import FanInStart, Fleet, FleetRecords, Members, Probe, Replacement
from papers.heller_fetaya.lenet import scores_of
from papers.heller_fetaya.lenet_on_cuda import train_with_kernel
from papers.heller_fetaya.network_canary import Canary, Claimed, NeuralData, NeuralSetting, PilotRound, find_canaries
from sordino.auditing.confidence import ErrorCounts, choose_threshold, count_errors, epsilon_lower
from sordino.auditing.experiment import Claim, Releases, ScoreFunction, Scores, bound_from_counts
from sordino.auditing.fleet import FleetNetwork, FleetPlan, Parts
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.core.bound import Relation, View
from sordino.core.spec import Clipping, ClippingKind, ConstantSchedule, GaussianNoise, NoisyGradient, PointStart, Spec
from sordino.core.validate import POSITIVE, number, one_of, refuse
from sordino.models.base import Model
from sordino.models.facts import Domain

# Probabilities are single precision: nothing between 0 and 1 is as far out as this.
_LEAST, _MOST = 1e-30, 1.0 - 2.0**-25


@dataclass(frozen=True)
class LogisticScore:
    """Logistic regression on standardised releases, with a small ridge; learns what no covariance shows."""

    ridge: float = 1e-2
    iterations: ClassVar[int] = 25

    def __post_init__(self) -> None:
        number("ridge", self.ridge, POSITIVE)

    def __call__(self, first: Releases, second: Releases) -> ScoreFunction:
        pooled = np.concatenate([first, second]).astype(float)
        centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        rows = np.concatenate([(pooled - centre) / scale, np.ones((len(pooled), 1))], axis=1)
        labels = np.repeat([0.0, 1.0], [len(first), len(second)])
        weights = _newton(rows, labels, self.ridge * len(rows), self.iterations)
        return lambda releases: ((releases - centre) / scale) @ weights[:-1] + weights[-1]


def _newton(rows: NDArray[np.float64], labels: NDArray[np.float64], ridge: float, iterations: int) -> Scores:
    weights = np.zeros(rows.shape[1])
    for _ in range(iterations):
        chance = special.expit(rows @ weights)
        gradient = rows.T @ (chance - labels) + ridge * weights
        curvature = (rows.T * (chance * (1 - chance))) @ rows + ridge * np.eye(len(weights))
        weights = weights - linalg.solve(curvature, gradient, assume_a="pos")
    return weights


@dataclass(frozen=True)
class Halves:
    """Models as `Members.of_both` orders them: of each side the first `learn` teach, the other `test` are counted."""

    learn: int
    test: int

    @property
    def each(self) -> int:
        """The models of a side."""
        return self.learn + self.test

    def parts(self, readings: NDArray[np.floating]) -> tuple[NDArray[np.float64], ...]:
        """Readings, shape (models, k), of: teachers of D, teachers of D', counted models of D, counted ones of D'."""
        values = np.nan_to_num(np.asarray(readings, float))
        if values.ndim != 2 or len(values) != 2 * self.each:
            raise refuse("the readings", f"to have one row for each of {2 * self.each} models", values.shape)
        sides = values[: self.each], values[self.each :]
        return (*(side[: self.learn] for side in sides), *(side[self.learn :] for side in sides))


# From the probabilities of all models to errors on the counted ones.
Attack = Callable[[NDArray[np.floating], Halves, Claimed], ErrorCounts]
_ATTACKS: dict[str, Attack] = {}


def attack(word: str) -> Callable[[Attack], Attack]:
    """Decorator: attack every epoch in this way too; joint bounds then share their confidence with it."""

    def registered(function: Attack) -> Attack:
        _ATTACKS[word] = function
        return function

    return registered


@attack("probabilities")
def _as_in_the_paper(probabilities: NDArray[np.floating], halves: Halves, _claimed: Claimed) -> ErrorCounts:
    first, second, first_test, second_test = halves.parts(probabilities)
    rule = LogisticScore()(first, second)
    return _counted(rule(first_test), rule(second_test), 0.0)


@attack("log-odds")
def _of_log_odds(probabilities: NDArray[np.floating], halves: Halves, _claimed: Claimed) -> ErrorCounts:
    """The same probabilities as log-odds, which separate models that all misclassify."""
    first, second, first_test, second_test = halves.parts(log_odds(probabilities))
    rule = LogisticScore()(first, second)
    return _counted(rule(first_test), rule(second_test), 0.0)


@attack("log-odds, chosen cut")
def _cut_where_most_is_proved(probabilities: NDArray[np.floating], halves: Halves, claimed: Claimed) -> ErrorCounts:
    """The same score, cut where the bound on the models that teach is largest."""
    first, second, first_test, second_test = halves.parts(log_odds(probabilities))
    rule = LogisticScore()(first, second)
    threshold = float(choose_threshold(rule(first), rule(second), claimed.delta, claimed.confidence))
    return _counted(rule(first_test), rule(second_test), threshold)


@dataclass(frozen=True)
class EpochFinding:
    """What each attack did on one epoch, by name, and how accurate the models were: the mean over the fleet."""

    epoch: int
    by_attack: Mapping[str, ErrorCounts]
    accuracy: float

    def counts(self, attack: str) -> ErrorCounts:
        """The errors of one attack."""
        return self.by_attack[one_of("attack", attack, self.by_attack)]


def attack_epoch(
    epoch: int, probabilities: NDArray[np.floating], accuracy: NDArray, halves: Halves, claimed: Claimed
) -> EpochFinding:
    """Teach every attack on the one half of the models and count its errors on the other."""
    counts = {name: function(probabilities, halves, claimed) for name, function in _ATTACKS.items()}
    return EpochFinding(epoch, MappingProxyType(counts), float(np.mean(accuracy)))


def log_odds(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Log-odds of probabilities in single precision, none of them infinite."""
    chances = np.clip(np.asarray(probabilities, float), _LEAST, _MOST)
    return np.log(chances) - np.log1p(-chances)


def _counted(first: NDArray[np.float64], second: NDArray[np.float64], threshold: float) -> ErrorCounts:
    false_positives, false_negatives = count_errors(first, second, threshold)
    return ErrorCounts(int(false_positives), len(first), int(false_negatives), len(second))


Readings = Mapping[str, NDArray[np.float32]]
_CLAIM = Claim(Relation.REPLACE_ONE, View.LAST_ITERATE)
_EVIDENCE = "DeepFool canary with its label kept; a linear classifier of the probabilities at canary and record"


@dataclass(frozen=True, eq=False)
class NeuralFindings:
    """Every attack on every epoch, at one delta and one confidence.

    An epoch's own bound by one attack holds for the release of that epoch's iterate. Joint bounds hold for all epochs
    and all attacks at once: each may fail with an equal share of the probability.
    """

    epochs: tuple[EpochFinding, ...]
    halves: Halves
    claimed: Claimed
    seed: int
    readings: Readings = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.epochs:
            raise refuse("the findings", "to hold at least one epoch", 0)

    @property
    def attacks(self) -> tuple[str, ...]:
        """The names of the attacks, the paper's first."""
        return tuple(self.epochs[0].by_attack)

    def lower_bound(self, epoch: int, attack: str, *, joint: bool) -> LowerBound:
        """The bound of an epoch, by its number; joint ones hold together with all others."""
        finding = next((each for each in self.epochs if each.epoch == epoch), None)
        if finding is None:
            raise refuse("epoch", f"to be one of the {len(self.epochs)} that were attacked", epoch)
        confidence = self.joint_confidence if joint else self.claimed.confidence
        models = 2 * self.halves.each
        options = AuditOptions(delta=self.claimed.delta, confidence=confidence, models=models, seed=self.seed)
        counts = finding.counts(attack)
        bound = bound_from_counts(counts, _CLAIM, options, f"{_EVIDENCE}; epoch {epoch}", models)
        # The paper's own statistic, a limit for each kind of error; one test of both would prove more.
        by_limits = epsilon_lower(counts, options.delta, confidence)
        most = cap(counts.first_models, counts.second_models, options.delta, confidence)
        return replace(bound, epsilon=by_limits, cap=most)

    def bounds(self, attack: str, *, joint: bool) -> tuple[LowerBound, ...]:
        """The bounds of all epochs by one attack."""
        return tuple(self.lower_bound(each.epoch, attack, joint=joint) for each in self.epochs)

    def over_all(self) -> LowerBound:
        """The largest joint bound, of whatever epoch and attack: it holds however these were picked."""
        joint = [bound for attack in self.attacks for bound in self.bounds(attack, joint=True)]
        return max(joint, key=lambda bound: bound.epsilon)

    @property
    def joint_confidence(self) -> float:
        """The confidence of each bound for all of them to hold together with the claimed one."""
        return 1.0 - (1.0 - self.claimed.confidence) / (len(self.epochs) * len(self.attacks))

    @property
    def cap(self) -> float:
        """The most that an epoch's own bound could be: an attack that never errs."""
        return cap(self.halves.test, self.halves.test, self.claimed.delta, self.claimed.confidence)


def findings_of(readings: Readings, halves: Halves, claimed: Claimed, seed: int) -> NeuralFindings:
    """The findings in readings of shape (epochs, models, k), named "probabilities" and "accuracy"."""
    pairs = zip(readings["probabilities"], readings["accuracy"], strict=True)
    epochs = tuple(attack_epoch(number, *pair, halves, claimed) for number, pair in enumerate(pairs, start=1))
    return NeuralFindings(epochs, halves, claimed, seed, dict(readings))


@dataclass(frozen=True, eq=False)
class Piloted:
    """A candidate and, by epoch, how far apart models with and without it were.

    Separation is the difference of the mean log-odds of the label at the canary, over their pooled deviation.
    """

    canary: Canary
    separations: NDArray[np.float64]

    @property
    def score(self) -> float:
        """The least separation in the second half of the epochs."""
        return float(np.min(self.separations[len(self.separations) // 2 :]))


def pilot(
    model: Model,
    data: NeuralData,
    plan: FleetPlan,
    size: PilotRound,
    canaries: Sequence[Canary],
    first: int,
    train: Callable[..., Fleet],
) -> tuple[Piloted, ...]:
    """Train models of D and of the neighbour that each of the first candidates makes; best candidate first.

    Members are numbered from `first`; `plan` is that of the round.
    """
    tried = tuple(canaries[: size.candidates])
    replacements = tuple(Replacement(each.row, each.x_star, float(each.label)) for each in tried)
    records = FleetRecords(data.features, data.target, replacements)
    which = (0,) * size.of_d + tuple(number for number in range(1, len(tried) + 1) for _ in range(size.each))
    members = Members(tuple(range(first, first + len(which))), which)
    points = jnp.asarray(np.stack([each.x_star for each in tried]))
    probes = {"probabilities": Probabilities(points, jnp.asarray([each.label for each in tried]))}
    odds = log_odds(train(model, records, plan, members, probes).readings["probabilities"])
    place = np.asarray(which)
    piloted = [
        Piloted(canary, separation(odds[:, place == 0, number], odds[:, place == number + 1, number]))
        for number, canary in enumerate(tried)
    ]
    return tuple(sorted(piloted, key=lambda each: -each.score))


def separation(without: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """The difference of means along the last axis over the pooled deviation; readings that are no numbers give zero."""
    squares = sum(np.var(side, axis=-1) * side.shape[-1] for side in (without, seen))
    deviation = np.sqrt(squares / (without.shape[-1] + seen.shape[-1] - 2))
    return np.nan_to_num((seen.mean(axis=-1) - without.mean(axis=-1)) / np.maximum(deviation, 1e-6))


# `train_with_kernel`, or anything that trains the same members to the same numbers: a cluster, a choice of devices.
TrainFleet = Callable[..., Fleet]
# Told each epoch's finding and its readings; answers whether to go on.
EachEpoch = Callable[[EpochFinding, Mapping[str, NDArray[np.float32]]], bool]
# Told what each round of trial found, best candidate first.
EachRound = Callable[[tuple[Piloted, ...]], None]
# Members of the ensemble and of pilots have numbers that no fleet reaches, so they share no randomness with it.
_ENSEMBLE_FIRST = 2**31
_PILOT_FIRST, _ROUND = 3 * 2**30, 2**20


def audit_network(
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    *,
    train: TrainFleet = train_with_kernel,
    each_epoch: EachEpoch | None = None,
) -> tuple[Canary, NeuralFindings]:
    """Lower bounds on the privacy loss of training a network on D, by epoch.

    The canary is made against models, and may be chosen by models, that are then thrown away; half of the fleet teaches
    the attack, the other half counts its errors. With `each_epoch` the fleet is watched, and may be ended early.
    """
    canary = canary_against_ensemble(model, data, setting, train)
    return canary, attack_canary(model, data, setting, canary, train=train, each_epoch=each_epoch)


def canary_against_ensemble(
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    train: TrainFleet = train_with_kernel,
    each_round: EachRound | None = None,
) -> Canary:
    """Train the ensemble of D, make canaries against it, and choose one: by trial, or the one that pulls hardest."""
    plan = replace(setting.plan, epochs=setting.ensemble_epochs)
    members = Members.of_one(setting.ensemble, first=_ENSEMBLE_FIRST)
    # Read as the attacked fleet is, so that one compiled program trains both; what is read here is not looked at.
    probes = _probes(data, data.features[0], data.features[0], 0)
    ensemble = train(model, FleetRecords(data.features, data.target), plan, members, probes).theta
    candidates = find_canaries(model, data, ensemble, plan.clip_norm, setting.tries, setting.beyond)
    if not setting.pilot:
        return max(candidates, key=lambda canary: canary.pull)
    for place, size in enumerate(setting.pilot):
        trial = replace(setting.plan, epochs=size.epochs)
        ranked = pilot(model, data, trial, size, candidates, _PILOT_FIRST + place * _ROUND, train)
        if each_round is not None:
            each_round(ranked)
        candidates = tuple(each.canary for each in ranked)
    return candidates[0]


def attack_canary(
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    canary: Canary,
    *,
    train: TrainFleet = train_with_kernel,
    each_epoch: EachEpoch | None = None,
) -> NeuralFindings:
    """Train the fleet on D and on D', and attack every epoch."""
    halves = Halves(setting.learning // 2, setting.testing // 2)
    probes = _probes(data, canary.x_star, canary.x_zero, canary.label)
    watched: dict[str, Any] = {}
    if each_epoch is not None:

        def watch(epoch: int, readings: Mapping[str, NDArray[np.float32]]) -> bool:
            read = readings["probabilities"], readings["accuracy"]
            return each_epoch(attack_epoch(epoch, *read, halves, setting.claimed), readings)

        watched["watch"] = watch
    fleet = train(model, canary.records(data), setting.plan, Members.of_both(halves.each), probes, **watched)
    return findings_of(fleet.readings, halves, setting.claimed, setting.plan.seed)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Probabilities:
    """p(y = class | x) of a classifier at pairs of a point, shape (pairs, features), and a class, shape (pairs,)."""

    points: Array
    classes: Array

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        chances = jax.nn.softmax(scores_of(network, parts, self.points))
        return jnp.take_along_axis(chances, self.classes.astype(jnp.int32)[None, :, None], axis=2)[:, :, 0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Accuracy:
    """The share of rows whose largest score is that of their class."""

    features: Array
    classes: Array

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        chosen = jnp.argmax(scores_of(network, parts, self.features), axis=2)
        return jnp.mean((chosen == self.classes.astype(chosen.dtype)).astype(jnp.float32), axis=1, keepdims=True)


def canary_probabilities(x_star: Array, y_star: int, x_zero: Array, y_zero: int) -> Probabilities:
    """The four features of Heller and Fetaya, Section V: both points, each with both classes."""
    points = jnp.stack([jnp.asarray(x, jnp.float32) for x in (x_star, x_star, x_zero, x_zero)])
    return Probabilities(points, jnp.asarray([y_star, y_zero, y_star, y_zero], jnp.int32))


def _probes(data: NeuralData, x_star: NDArray[np.float32], x_zero: NDArray[np.float32], label: int) -> dict[str, Probe]:
    return {
        "probabilities": canary_probabilities(jnp.asarray(x_star), label, jnp.asarray(x_zero), label),
        "accuracy": Accuracy(jnp.asarray(data.test_features), jnp.asarray(data.test_target)),
    }


def described_chain(model: Model, domain: Domain, plan: FleetPlan, records: int, epochs: int) -> Spec:
    """The first epochs of a plan as a spec: replace-one, last iterate.

    A start by fan-in is written as a point: it is drawn without the data, so a guarantee for every point is one for it.
    """
    clipping = None if plan.clip_norm is None else Clipping(ClippingKind.NORM, plan.clip_norm)
    chain = NoisyGradient(
        steps=epochs * plan.steps_per_epoch(records),
        step_size=ConstantSchedule(plan.step_size),
        noise=GaussianNoise(ConstantSchedule(plan.noise_scale)),
        batch=plan.batch,
        clipping=clipping,
        start=PointStart() if isinstance(plan.start, FanInStart) else plan.start,
    )
    problem = model.problem(records, domain, clipping)
    return Spec(algorithm=chain, problem=problem, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE)
