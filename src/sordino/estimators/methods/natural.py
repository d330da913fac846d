"""Networks with a linear part by private natural gradients: whiten, then follow noised gradients of length 1.

Two noised sums of products of rows whiten them and give a linear start; rounds of natural gradients follow
(`algorithm.rounds.natural_network`). For a number the scale of the residuals is counted before each stage of rounds,
which sets the clip, and once more in the end: intervals of new targets have a spread and a shape that were released.
How large the network is follows from public numbers: with D parameters, n records and a privacy parameter mu, noise
adds about (D / (n mu))^2 of the residual variance to the error, so D is a share of n mu.

The settings were chosen on drawn tables (`bench/network_settings.py`), never on a real one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.algorithm.noise.randomness import Purpose
from sordino.algorithm.noise.sums import COVERED, own_products
from sordino.algorithm.posterior.network import NetworkPosterior
from sordino.algorithm.posterior.residuals import median_size, residual_law
from sordino.algorithm.posterior.skip_scores import Forward, label_residuals
from sordino.algorithm.rounds.natural_network import (
    REPLACED,
    Descent,
    NaturalGradients,
    Point,
    ResidualSizes,
    Slope,
    clipped_slope,
    inverse_root,
    residual_sizes,
    whitening,
)
from sordino.algorithm.rounds.second_moments import StatisticsOptions, StatisticsStack, run_statistics
from sordino.core.arrays import Array
from sordino.core.bound import Certificate, Relation, exactly_computed
from sordino.core.gaussian import up
from sordino.core.spec import ListSchedule, Spec
from sordino.data import Category
from sordino.estimators.methods.base import (
    Method,
    Outcome,
    Plan,
    Predicted,
    constant_error,
    in_parts,
    method,
    multiplier,
    sums_of,
    sums_over_all,
    sums_spec,
    target_bound,
)
from sordino.estimators.situation import Situation, Sources, Task, class_codes, stand_in
from sordino.ledger.release.folder import RAREST
from sordino.model.families.skip_networks import SkipClassification, SkipNetwork, SkipRegression

_MOST_PARAMETERS = 500
# A uniform number between its bounds, times this, has variance 1.
_WIDTH = math.sqrt(3.0)
# Squared rows may be this much longer than their mean before they are shortened.
_ROOM = 1.5
# Coefficients of whitened rows have this variance before the data speak, in units of the target's.
_EFFECTS = 0.1
_LEAST_SPREAD, _LEAST_SHARE = 0.02, 0.03
# Noise in the second moments that whiten rows makes steps too short in some directions and too long in others. With D
# the relative error of these moments, errors of steps grow by (1 + D)^-2, to second order by 3 D^2 if nothing made up
# for it; later rounds make up for most. This share of E D^2 was chosen on drawn tables with linear log odds.
MISJUDGED = 0.6
# Rows of the public law that the metric is averaged over, and rounds between two computations of it.
_LAW_ROWS, _RENEWED = 2048, 5
_SEED = 20_271
# Ends of the bins of residuals: of standardised targets, and in the end in units of the last scale.
_ENDS = np.geomspace(0.02, 4.0, 24)
_LAST_ENDS = np.array([0.2, 0.45, 0.75, 1.1, 1.5, 2.0, 2.6, 3.4])
_NORMAL_MEDIAN = 0.6745
_SIZES = "sizes of residuals, counted"
# Where hidden units can see every column only if there are fewer of them than this, they see numbers alone.
_FEW_UNITS = 4


@dataclass(frozen=True)
class NaturalSettings:
    """What was chosen on drawn tables.

    `efolds` is the sum of all step sizes, by which an error shrinks; they fall in equal steps to a share `end` of the
    first. `share` is that of parameters in n mu, `kept` that of the rounds whose points are averaged.
    """

    share: float
    rounds: int
    stages: int
    clip: float
    efolds: float
    end: float
    momentum: float
    damping: float
    whitening: float
    cross: float
    start: float
    output: float
    kept: float
    shrunk: bool
    most: int = 240
    cut: float = 4.0
    share_of_scale: float = 0.01
    share_of_check: float = 0.04

    @property
    def step_sizes(self) -> Array:
        """Of all rounds."""
        first = 2.0 * self.efolds / self.rounds / (1.0 + self.end)
        return np.linspace(first, self.end * first, self.rounds)

    @property
    def rounds_of_stages(self) -> tuple[int, ...]:
        """Nearly the same for each."""
        ends = np.arange(self.stages + 1) * self.rounds // self.stages
        return tuple(np.diff(ends).tolist())


SETTINGS = {
    Task.NETWORK_REGRESSION: NaturalSettings(
        share=0.1,
        rounds=150,
        stages=3,
        clip=0.15,
        efolds=5.0,
        end=0.15,
        momentum=0.5,
        damping=0.02,
        whitening=0.1,
        cross=0.6,
        start=0.3,
        output=0.5,
        kept=0.4,
        shrunk=True,
    ),
    Task.NETWORK_CLASSIFICATION: NaturalSettings(
        share=0.03,
        rounds=150,
        stages=1,
        clip=0.8,
        efolds=5.0,
        end=0.1,
        momentum=0.5,
        damping=0.03,
        whitening=0.08,
        cross=0.3,
        start=0.3,
        output=0.3,
        kept=0.5,
        shrunk=False,
    ),
}


@dataclass(frozen=True, eq=False)
class _Columns:
    """Which encoded columns the network reads, by a public map of (x, 1); hidden units see the first ones."""

    first: Array
    seen: int
    squares: float

    @property
    def count(self) -> int:
        return self.first.shape[1]


@method("natural", Task.NETWORK_REGRESSION, Task.NETWORK_CLASSIFICATION)
class NaturalNetwork(Method):
    """Noised natural gradients of a network with one hidden layer beside a linear part."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def __init__(self, settings: dict[Task, NaturalSettings] | None = None) -> None:
        self.settings = SETTINGS if settings is None else settings

    def refusal(self, situation: Situation) -> str | None:
        asked = situation.settings["hidden"]
        if asked is not None and len(asked) > 1:
            return "has one hidden layer, and several were asked for; method 'variational' has as many as asked for"
        columns = _columns(situation, 1)
        if columns.count == 0:
            return "needs a column that can vary"
        size = _network(situation, self.settings[situation.task]).dim(columns.count)
        if size > _MOST_PARAMETERS:
            return f"needs at most {_MOST_PARAMETERS} parameters, and with these columns there are {size}"
        return None

    def plan(self, situation: Situation) -> Plan:
        settings = self.settings[situation.task]
        specs = tuple(_specs(situation, settings))
        predicted = _predicted(situation, settings)
        return Plan(self, situation, in_parts(situation, *specs), predicted, {"specs": specs})

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        situation, settings = plan.situation, self.settings[plan.situation.task]
        return _Run(situation, settings, X, y, sources, iter(plan.details["specs"])).outcome()


def _columns(situation: Situation, fewest: int = _FEW_UNITS, room: float = math.inf) -> _Columns:
    """Numbers first; `room` is for parameters, and where it holds too few units that see all, they see numbers."""
    schema, numbers, others = situation.schema, list[tuple[int, float]](), list[int]()
    squares = 0.0
    for feature, block in schema.blocks():
        if isinstance(feature.kind, Category):
            others += range(block.start, block.stop)
            squares += _WIDTH**2
        else:
            numbers += [(place, _WIDTH / feature.kind.block_norm) for place in range(block.start, block.stop)]
            squares += block.stop - block.start
    scaled = numbers + [(place, _WIDTH) for place in others]
    first = np.zeros((situation.features + 1, len(scaled)))
    for column, (place, scale) in enumerate(scaled):
        first[place, column] = scale
    outputs = _outputs(situation)
    left = room - outputs * (1 + len(scaled))
    see_all = not numbers or left / (len(scaled) + 1 + outputs) >= fewest
    return _Columns(first, len(scaled) if see_all else len(numbers), squares)


def _outputs(situation: Situation) -> int:
    return 1 if (situation.classes or 2) == 2 else situation.classes or 1


def _room(situation: Situation, settings: NaturalSettings) -> float:
    """For parameters: a share of n mu, halved where a record counts twice less, and no more than time allows."""
    return min(settings.share * situation.records * situation.mu, settings.most)


def _network(situation: Situation, settings: NaturalSettings, variance: float = 1.0) -> SkipNetwork:
    """The network for so many records of a public shape; its size as asked for, or as noise allows."""
    room, asked, outputs = _room(situation, settings), situation.settings["hidden"], _outputs(situation)
    columns = _columns(situation, room=room)
    units = math.floor((room - outputs * (1 + columns.count)) / (columns.seen + 1 + outputs))
    hidden = max(1, units) if asked is None else asked[0]
    if situation.classes is None:
        return SkipRegression(hidden, columns.seen, settings.cut, noise_precision=1.0 / variance)
    return SkipClassification(hidden, columns.seen, settings.cut, classes=situation.classes)


def _stack(situation: Situation, settings: NaturalSettings) -> StatisticsStack:
    """Several classes are no number, so their sums of products hold none."""
    cross = settings.cross if _outputs(situation) == 1 else 0.01
    return StatisticsStack(cross=cross, square=0.5 * cross)


def _options(situation: Situation, settings: NaturalSettings, length: float) -> StatisticsOptions:
    bound = target_bound(situation) if situation.classes is None else 1.0
    return StatisticsOptions(length, bound, stack=_stack(situation, settings))


def _specs(situation: Situation, settings: NaturalSettings) -> Iterator[Spec]:
    """Everything that is asked, in order: products twice, then sizes and steps by stages, and sizes in the end."""
    for _ in range(2):
        mu = situation.mu * math.sqrt(settings.whitening / 2)
        yield sums_spec(situation, mu, _options(situation, settings, 1.0))
    numbers = situation.classes is None
    counted = settings.stages * settings.share_of_scale + settings.share_of_check if numbers else 0.0
    mu = situation.mu * math.sqrt((1.0 - settings.whitening - counted) / settings.rounds)
    begin = 0
    for rounds in settings.rounds_of_stages:
        if numbers:
            yield _sizes_spec(situation, settings.share_of_scale)
        steps = ListSchedule(tuple(settings.step_sizes[begin : begin + rounds].tolist()))
        words = "natural gradients of a network with a linear part"
        yield sums_over_all(situation, words, rounds, 1.0, mu, step_size=steps)
        begin += rounds
    if numbers:
        yield _sizes_spec(situation, settings.share_of_check)


def _sizes_spec(situation: Situation, share: float) -> Spec:
    """Counts: a replacement moves them by sqrt 2, less than twice a contribution."""
    spec = sums_over_all(situation, _SIZES, 1, 1.0, situation.mu * math.sqrt(share))
    if situation.relation is not Relation.REPLACE_ONE:
        return spec
    noise = up(REPLACED * multiplier(situation.mu * math.sqrt(share)))
    algorithm = sums_of(spec)
    return replace(
        spec,
        algorithm=replace(
            algorithm, replacement=REPLACED, noise_multiplier=replace(algorithm.noise_multiplier, value=noise)
        ),
    )


def _predicted(situation: Situation, settings: NaturalSettings) -> Predicted:
    """By a formula: half of the variance is explained, and noise adds what it adds to a parameter."""
    constant = constant_error(situation, stand_in(situation))
    size = _network(situation, settings).dim(_columns(situation).count)
    noise = (1.5 * situation.clips * size / (situation.records * situation.mu)) ** 2
    return Predicted(constant * min(1.5, math.sqrt(0.5 + noise)), constant)


def _law(columns: int) -> Array:
    """Rows of the public law that stands for whitened ones."""
    return np.random.default_rng(_SEED).standard_normal((_LAW_ROWS, columns))


class _Linear(NamedTuple):
    """What the sums say of targets: their mean and spread, slopes of whitened rows, and how far those are in doubt.

    `doubt` is the sum over columns of the squared relative error of second moments of whitened rows, by noise.
    """

    mean: float
    spread: float
    slopes: Array
    doubt: float = 0.0


class _Fitted(NamedTuple):
    """Parameters, their covariance by noise and sampling, and the scale of residuals."""

    theta: Array
    covariance: Array
    scale: float


class _Run:
    """One fit: every part of the spec is asked for once, in order, each with a source of its own."""

    def __init__(
        self, situation: Situation, settings: NaturalSettings, X: Array, y: Array, sources: Sources, specs: Any
    ) -> None:
        self.situation, self.settings, self.sources, self.specs = situation, settings, sources, specs
        self.X, self.y = X, y
        self.records = situation.records

    def outcome(self) -> Outcome:
        settings, situation = self.settings, self.situation
        transform, linear = self._whitened()
        rows = self._rows(transform)
        numbers = situation.classes is None
        codes = (self.y - linear.mean) / linear.spread if numbers else class_codes(self.y, situation.classes or 2)
        targets = np.asarray(codes, np.float64)
        model = _network(situation, settings)
        fitted = self._followed(model, rows, targets, linear)
        found, covariance, scale = fitted
        if not numbers:
            rarest = {RAREST: self._rarest(model, found, rows.shape[1])}
            return Outcome(NetworkPosterior(model, transform, found, covariance), model, rarest)
        sizes = residual_sizes(model, found, rows, targets)
        variance, exponent = self._residuals(sizes, scale)
        # Residuals of the rows fitted to are too small by what was fitted to them. They hold the noise of the fit,
        # which the posterior's spread counts once more: intervals err on the wide side.
        variance *= linear.spread**2 * (1.0 + 2.0 * len(found) / self.records)
        told = _network(situation, settings, variance)
        means, covariance = _in_target_units(model, transform.shape[1], found, covariance, linear)
        settled = {"residual_variance": variance, "residual_exponent": exponent}
        return Outcome(NetworkPosterior(told, transform, means, covariance), told, settled)

    def _rarest(self, model: SkipNetwork, theta: Array, columns: int) -> float:
        """How many records the rarest class has by the fit, over what noise in a count would be: post-processing."""
        shares, _ = label_residuals(Forward(model, theta, _law(columns)).scores)
        return float(shares.mean(axis=1).min()) * self.records * self.situation.mu

    def _rows(self, transform: Array) -> Array:
        return own_products(self.X, transform[:-1]) + transform[-1]

    def _whitened(self) -> tuple[Array, _Linear]:
        """The map to whitened rows, and the linear fit that the second sums give."""
        situation, settings = self.situation, self.settings
        columns = _columns(situation, room=_room(situation, settings))
        transform, linear = columns.first, _Linear(0.0, 1.0, np.zeros(columns.count))
        length = math.sqrt(_ROOM * (1.0 + columns.squares))
        for _ in range(2):
            options = _options(situation, settings, length)
            rows = np.column_stack([self._rows(transform), np.ones(len(self.X))])
            targets = self.y if _outputs(situation) == 1 else np.zeros(len(self.X))
            release = run_statistics(next(self.specs), rows, targets, self.sources.fresh(), options=options)
            gram, cross, square = options.stack.parts(release.statistics, rows.shape[1])
            unit = length**2 / self.records
            step = whitening(unit * gram, unit * release.noise, columns.seen)
            of_target = length * options.target_bound / self.records
            error = of_target * release.noise / options.stack.cross
            linear = self._linear(
                step, unit * gram, of_target * cross, error, options.target_bound**2 * square / self.records
            )
            relative = unit * release.noise * np.linalg.norm(step.transform[:-1, :-1], axis=0) ** 2
            linear = linear._replace(doubt=float(relative @ relative))
            transform = np.column_stack([transform, np.eye(len(transform))[-1]]) @ step.transform[:, :-1]
            length = math.sqrt(_ROOM * (1.0 + float(step.variances.sum())))
        return transform, linear

    def _linear(self, step: Any, moments: Array, cross: Array, error: float, square: float) -> _Linear:
        """Slopes of whitened columns, each shrunk by what is known of the noise in it."""
        bound = target_bound(self.situation) if self.situation.classes is None else 1.0
        mean = float(np.clip(cross[-1], -bound, bound))
        spread = math.sqrt(float(np.clip(square - mean**2, (_LEAST_SPREAD * bound) ** 2, bound**2)))
        together = (cross - mean * moments[:, -1])[:-1] @ step.transform[:-1, :-1]
        noise = error * np.linalg.norm(step.transform[:-1, :-1], axis=0)
        gain = step.variances / (step.variances**2 + noise**2 / (_EFFECTS * spread**2) + 1e-6)
        if self.situation.classes is None:
            return _Linear(mean, spread, gain * together / spread)
        share = float(np.clip(0.5 * (mean + 1.0), _LEAST_SHARE, 1.0 - _LEAST_SHARE))
        return _Linear(float(special.logit(share)), 1.0, gain * together * 0.5 / (share * (1.0 - share)))

    def _start(self, model: SkipNetwork, columns: int, linear: _Linear, public: np.random.Generator) -> Array:
        """Small random hidden weights, which are no data, and the linear fit."""
        settings, draw = self.settings, public.standard_normal
        inner = settings.start * draw(model.hidden * (model.seen + 1))
        outer = settings.output / math.sqrt(model.hidden) * draw(model.hidden * model.outputs)
        constant = np.zeros(model.outputs)
        if model.outputs == 1 and self.situation.classes is not None:
            constant[0] = linear.mean
        slopes = linear.slopes if model.outputs == 1 else np.zeros(columns * model.outputs)
        return np.concatenate([inner, outer, constant, slopes])

    def _followed(self, model: SkipNetwork, rows: Array, targets: Array, linear: _Linear) -> "_Fitted":
        """All stages, one after the other."""
        settings, situation = self.settings, self.situation
        public = self.sources.fresh().generator(Purpose.START)
        theta = self._start(model, rows.shape[1], linear, public)
        law = _law(rows.shape[1])
        kept = max(1, int(settings.kept * settings.rounds))
        descent = Descent(theta, settings.momentum, kept, settings.rounds)
        numbers = situation.classes is None
        damping = settings.damping + situation.settings["prior_precision"] / self.records
        scale, made, root, slope = 1.0, 0, np.eye(len(theta)), Slope(1.0, 1.0)
        reach = settings.clip * math.sqrt(len(theta))
        for rounds in settings.rounds_of_stages:
            if numbers:
                sizes = residual_sizes(model, descent.theta, rows, targets)
                counts = ResidualSizes()(next(self.specs), sizes, _ENDS, self.sources.fresh())
                scale = median_size(counts, _ENDS, self.records) / _NORMAL_MEDIAN
            asked = NaturalGradients(next(self.specs), model, rows, targets, self.sources.fresh())
            step_sizes = asked.algorithm.schedule("step_size").values(rounds)
            clip = scale * reach
            for k in range(rounds):
                if made % _RENEWED == 0:
                    root = inverse_root(model, descent.theta, law, damping)
                    slope = clipped_slope(model, Point(descent.theta, root, reach), law)
                mean = asked(Point(descent.theta, root, clip), k)
                descent.follow(root, mean, clip / slope.mean, float(step_sizes[k]), asked.noise)
                made += 1
        found = descent.settled(root, shrunk=settings.shrunk)
        sampling = scale**2 * slope.square / slope.mean**2 / self.records
        wider = 1.0 if numbers else 1.0 + MISJUDGED * linear.doubt
        covariance = wider * ((found.noise + sampling) * (root @ root) + np.outer(found.doubt, found.doubt))
        return _Fitted(found.theta, covariance + 1e-12 * np.eye(len(theta)), scale)

    def _residuals(self, sizes: Array, scale: float) -> tuple[float, float]:
        """Variance and exponent of the law of residuals, by their noised counts."""
        ends = scale * _LAST_ENDS
        spec = next(self.specs)
        counts = ResidualSizes()(spec, sizes, ends, self.sources.fresh())
        return residual_law(counts, ends, self.records, float(sums_of(spec).sum_noise[0]))


def _in_target_units(
    model: SkipNetwork, columns: int, theta: Array, covariance: Array, linear: _Linear
) -> tuple[Array, Array]:
    """The last layer times the targets' spread, the constant moved by their mean."""
    inner, bias, outer, constant, straight = model.sizes(columns)
    factors = np.repeat([1.0, linear.spread], [inner + bias, outer + constant + straight])
    means = factors * theta
    means[inner + bias + outer] += linear.mean
    return means, covariance * np.outer(factors, factors)
