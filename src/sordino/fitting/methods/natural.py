"""Networks with a linear part by private natural gradients: whiten, then follow noised gradients of length 1.

Two noised sums of products of rows whiten them and give a linear start; rounds of natural gradients follow. For a
number the scale of the residuals is counted before each stage of rounds, which sets the clip, and once more in the end,
for intervals of new targets.

How large the network is follows from public numbers: with D parameters, n records and a privacy parameter mu, noise
adds about (D / (n mu))^2 of the residual variance to the error, so D is a share of n mu. The settings were chosen on
drawn tables (`bench/network_settings.py`), never on a real one.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.core.spec import ListSchedule, Spec
from sordino.data import Category
from sordino.fitting.methods import base
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, class_codes
from sordino.ledger.release.coverage import RAREST, RAREST_OVER_SIZE
from sordino.mechanisms.networks import natural_gradients as gradients
from sordino.mechanisms.posterior.network import NetworkPosterior, median_size, residual_law
from sordino.mechanisms.statistics import second_moments
from sordino.models.base import describe_model
from sordino.models.families.networks import SkipClassification, SkipNetwork, SkipRegression
from sordino.noise.integer_sums import COVERED, own_products
from sordino.noise.randomness import Purpose

_WIDTH = math.sqrt(3.0)  # a uniform number between its bounds, times this, has variance 1
_SIZES, _CLASSES = "sizes of residuals, counted", "records of each class, counted"
# Where hidden units can see every column only if there are fewer of them than this, they see numbers alone.
_FEW_UNITS = 4


@dataclass(frozen=True)
class NaturalSettings:
    """What was chosen on drawn tables.

    `efolds` is the sum of all step sizes, which fall in equal steps to a share `end` of the first. `share` is that of
    parameters in n mu, `kept` that of the rounds whose points are averaged.
    """

    share: float
    stages: int
    clip: float
    end: float
    damping: float
    whitening: float
    cross: float
    output: float
    kept: float
    shrunk: bool
    rounds: int = 150
    efolds: float = 5.0
    momentum: float = 0.5
    start: float = 0.3
    most: int = 240
    cut: float = 4.0
    share_of_scale: float = 0.01
    share_of_check: float = 0.04
    share_of_classes: float = 0.03

    @property
    def step_sizes(self) -> Array:
        first = 2.0 * self.efolds / self.rounds / (1.0 + self.end)
        return np.linspace(first, self.end * first, self.rounds)

    @property
    def rounds_of_stages(self) -> tuple[int, ...]:
        return tuple(np.diff(np.arange(self.stages + 1) * self.rounds // self.stages).tolist())


_NUMBERS = NaturalSettings(
    share=0.1, stages=3, clip=0.15, end=0.15, damping=0.02, whitening=0.1, cross=0.6, output=0.5, kept=0.4, shrunk=True
)
_LABELS = NaturalSettings(
    share=0.03, stages=1, clip=0.8, end=0.1, damping=0.03, whitening=0.08, cross=0.3, output=0.3, kept=0.5, shrunk=False
)
SETTINGS = {"network-regression": _NUMBERS, "network-classification": _LABELS}


# Tables of numbers with fewer records times mu get more damping of the metric and fewer units.
# Chosen on the two shapes of `papers/vinaroz_park/sets.py` that have so few, 24 tables of each.
_FEW, _SHARE_OF_FEW, _DAMPING_OF_FEW = 600.0, 0.05, 0.15


def settings_for(problem: FitProblem, settings: NaturalSettings) -> NaturalSettings:
    """The settings of a task as they are used with so many records and such a budget."""
    if problem.classes is not None or problem.records * problem.mu >= _FEW:
        return settings
    return replace(settings, share=min(settings.share, _SHARE_OF_FEW), damping=max(settings.damping, _DAMPING_OF_FEW))


@dataclass(frozen=True, eq=False)
class Columns:
    """Which encoded columns the network reads, by a public map of (x, 1); hidden units see the first ones."""

    first: Array
    seen: int
    squares: float

    @property
    def count(self) -> int:
        return self.first.shape[1]


def columns_read(problem: FitProblem, fewest: int = _FEW_UNITS, room: float = math.inf) -> Columns:
    """Numbers first; `room` is for parameters, and where it holds too few units that see all, they see numbers."""
    schema, numbers, others = problem.schema, list[tuple[int, float]](), list[int]()
    squares = 0.0
    for feature, block in schema.blocks:
        if isinstance(feature.kind, Category):
            others += range(block.start, block.stop)
            squares += _WIDTH**2
        else:
            numbers += [(place, _WIDTH / feature.kind.block_norm) for place in range(block.start, block.stop)]
            squares += block.stop - block.start
    scaled = numbers + [(place, _WIDTH) for place in others]
    first = np.zeros((problem.features + 1, len(scaled)))
    for column, (place, scale) in enumerate(scaled):
        first[place, column] = scale
    outputs = problem.outputs
    see_all = not numbers or (room - outputs * (1 + len(scaled))) / (len(scaled) + 1 + outputs) >= fewest
    return Columns(first, len(scaled) if see_all else len(numbers), squares)


def room_for_parameters(problem: FitProblem, settings: NaturalSettings) -> float:
    """For parameters: a share of n mu, halved where a record counts twice less, and no more than time allows."""
    return min(settings.share * problem.records * problem.mu, settings.most)


def network_of(problem: FitProblem, settings: NaturalSettings, variance: float = 1.0) -> SkipNetwork:
    """The network for so many records of a public shape; its size as asked for, or as noise allows."""
    room, asked, outputs = room_for_parameters(problem, settings), problem.settings["hidden"], problem.outputs
    columns = columns_read(problem, room=room)
    units = math.floor((room - outputs * (1 + columns.count)) / (columns.seen + 1 + outputs))
    hidden = max(1, units) if asked is None else asked[0]
    if problem.classes is None:
        return SkipRegression(hidden, columns.seen, settings.cut, noise_precision=1.0 / variance)
    return SkipClassification(hidden, columns.seen, settings.cut, classes=problem.classes)


def sums_options(problem: FitProblem, settings: NaturalSettings, length: float) -> second_moments.StatisticsOptions:
    """How the products of rows are summed, for rows of at most this length."""
    bound = base.target_bound(problem) if problem.classes is None else 1.0
    cross = settings.cross if problem.outputs == 1 else 0.01  # several classes are no number
    stack = second_moments.StatisticsStack(cross=cross, square=0.5 * cross)
    return second_moments.StatisticsOptions(length, bound, stack=stack)


def natural_specs(problem: FitProblem, settings: NaturalSettings) -> Iterator[Spec]:
    """All that is asked, in order: products twice, counts of classes or sizes before steps, and sizes in the end."""
    for _ in range(2):
        noise = base.multiplier(problem.mu * math.sqrt(settings.whitening / 2))
        options = sums_options(problem, settings, 1.0)
        yield second_moments.statistics_spec(problem.records, noise, problem.relation, options, problem.delta)
    numbers = problem.classes is None
    counted = settings.stages * settings.share_of_scale + settings.share_of_check
    if not numbers:
        counted = settings.share_of_classes
        yield base.counts_spec(problem, _CLASSES, counted)
    mu = problem.mu * math.sqrt((1.0 - settings.whitening - counted) / settings.rounds)
    begin = 0
    for rounds in settings.rounds_of_stages:
        if numbers:
            yield base.counts_spec(problem, _SIZES, settings.share_of_scale)
        steps = ListSchedule(tuple(settings.step_sizes[begin : begin + rounds].tolist()))
        words = "natural gradients of a network with a linear part"
        yield base.sums_over_all(problem, words, rounds, 1.0, mu, step_size=steps)
        begin += rounds
    if numbers:
        yield base.counts_spec(problem, _SIZES, settings.share_of_check)


_MOST_PARAMETERS = 500
_ROOM = 1.5  # squared rows may be this much longer than their mean before they are shortened
_EFFECTS = 0.1  # prior variance of coefficients of whitened rows, in units of the target's
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


@base.method("natural")
class NaturalNetwork(base.Method):
    """Noised natural gradients of a network with one hidden layer beside a linear part."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    settings: Mapping[str, NaturalSettings] = SETTINGS

    def refusal(self, problem: FitProblem) -> str | None:
        asked = problem.settings["hidden"]
        if asked is not None and len(asked) > 1:
            return "has one hidden layer, and you declared several; method 'dp-vi' has as many as declared"
        columns = columns_read(problem, 1)
        if columns.count == 0:
            return "needs a column that can vary"
        size = network_of(problem, self._settings(problem)).dim(columns.count)
        if size > _MOST_PARAMETERS:
            return f"needs at most {_MOST_PARAMETERS} parameters, and with these columns there are {size}"
        return None

    def _settings(self, problem: FitProblem) -> NaturalSettings:
        return settings_for(problem, self.settings[problem.task.word])

    def plan(self, problem: FitProblem) -> base.FitPlan:
        settings = self._settings(problem)
        specs = natural_specs(problem, settings)
        # Half the variance is explained, and noise adds what it does to a parameter.
        size = network_of(problem, settings).dim(columns_read(problem).count)
        noise = (1.5 * problem.clips * size / (problem.records * problem.mu)) ** 2
        return base.FitPlan(self, problem, base.in_parts(problem, *specs), min(1.5, math.sqrt(0.5 + noise)))

    def run(self, plan: base.FitPlan, rows: EncodedRows, sources: Sources) -> base.Outcome:
        return _Run(plan.problem, self._settings(plan.problem), rows.X, rows.y, sources).outcome()


class _Linear(NamedTuple):
    """Mean and spread of targets, slopes of whitened rows, and the sum of their moments' squared relative errors."""

    mean: float
    spread: float
    slopes: Array
    doubt: float = 0.0


class _Run:
    """One fit: every part of the spec is asked for once, in order, each with a source of its own."""

    def __init__(self, problem: FitProblem, settings: NaturalSettings, X: Array, y: Array, sources: Sources) -> None:
        self.problem, self.settings, self.sources = problem, settings, sources
        self.specs = natural_specs(problem, settings)
        self.X, self.y = X, y
        self.records = problem.records

    def outcome(self) -> base.Outcome:
        settings, problem = self.settings, self.problem
        transform, linear = self._whitened()
        rows = self._rows(transform)
        numbers = problem.classes is None
        codes = (self.y - linear.mean) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)
        targets = np.asarray(codes, np.float64)
        model = network_of(problem, settings)
        counts = None
        if not numbers:  # as many records of a class as the noise, where it hides them
            spec = next(self.specs)
            noised = gradients.class_counts(spec, targets, problem.classes or 2, self.sources.fresh())
            counts = np.maximum(noised, float(base.sums_of(spec).sum_noise[0]))
        found, covariance, scale = self._followed(model, rows, targets, linear, counts)
        if counts is not None:
            fewest = float(counts.min())
            rarest = {RAREST: fewest * problem.mu, RAREST_OVER_SIZE: fewest * model.outputs / len(found)}
            return base.Outcome(NetworkPosterior(model, transform, found, covariance), describe_model(model), rarest)
        ends, spec = scale * _LAST_ENDS, next(self.specs)
        sizes = gradients.residual_sizes(model, found, rows, targets)
        sized = gradients.residual_counts(spec, sizes, ends, self.sources.fresh())
        variance, exponent = residual_law(sized, ends, self.records, float(base.sums_of(spec).sum_noise[0]))
        # Residuals of the rows fitted to are too small by what was fitted to them. They hold the noise of the fit,
        # which the posterior's spread counts once more: intervals err on the wide side.
        variance *= linear.spread**2 * (1.0 + 2.0 * len(found) / self.records)
        network = network_of(problem, settings, variance)
        # The last layer times the targets' spread, the constant moved by their mean.
        inner, bias, outer, constant, straight = model.sizes(transform.shape[1])
        factors = np.repeat([1.0, linear.spread], [inner + bias, outer + constant + straight])
        means = factors * found
        means[inner + bias + outer] += linear.mean
        covariance = covariance * np.outer(factors, factors)
        settled = {"residual_variance": variance, "residual_exponent": exponent}
        return base.Outcome(NetworkPosterior(network, transform, means, covariance), describe_model(network), settled)

    def _rows(self, transform: Array) -> Array:
        return own_products(self.X, transform[:-1]) + transform[-1]

    def _whitened(self) -> tuple[Array, _Linear]:
        """The map to whitened rows, and the linear fit that the second sums give."""
        problem, settings = self.problem, self.settings
        columns = columns_read(problem, room=room_for_parameters(problem, settings))
        transform, linear = columns.first, _Linear(0.0, 1.0, np.zeros(columns.count))
        length = math.sqrt(_ROOM * (1.0 + columns.squares))
        for _ in range(2):
            options = sums_options(problem, settings, length)
            rows = np.column_stack([self._rows(transform), np.ones(len(self.X))])
            targets = self.y if problem.outputs == 1 else np.zeros(len(self.X))
            given = (next(self.specs), rows, targets, self.sources.fresh())
            release = second_moments.run_statistics(*given, options=options)
            gram, cross, square = options.stack.parts(release.statistics, rows.shape[1])
            unit = length**2 / self.records
            step = gradients.whitening(unit * gram, unit * release.noise, columns.seen)
            of_target = length * options.target_bound / self.records
            error = of_target * release.noise / options.stack.cross
            squared = options.target_bound**2 * square / self.records
            linear = self._linear(step, unit * gram, of_target * cross, error, squared)
            relative = unit * release.noise * np.linalg.norm(step.transform[:-1, :-1], axis=0) ** 2
            linear = linear._replace(doubt=float(relative @ relative))
            transform = np.column_stack([transform, np.eye(len(transform))[-1]]) @ step.transform[:, :-1]
            length = math.sqrt(_ROOM * (1.0 + float(step.variances.sum())))
        return transform, linear

    def _linear(self, step: gradients.Whitening, moments: Array, cross: Array, error: float, square: float) -> _Linear:
        """Slopes of whitened columns, each shrunk by what is known of the noise in it."""
        bound = base.target_bound(self.problem) if self.problem.classes is None else 1.0
        mean = float(np.clip(cross[-1], -bound, bound))
        spread = math.sqrt(float(np.clip(square - mean**2, (_LEAST_SPREAD * bound) ** 2, bound**2)))
        together = (cross - mean * moments[:, -1])[:-1] @ step.transform[:-1, :-1]
        noise = error * np.linalg.norm(step.transform[:-1, :-1], axis=0)
        gain = step.variances / (step.variances**2 + noise**2 / (_EFFECTS * spread**2) + 1e-6)
        if self.problem.classes is None:
            return _Linear(mean, spread, gain * together / spread)
        share = float(np.clip(0.5 * (mean + 1.0), _LEAST_SHARE, 1.0 - _LEAST_SHARE))
        return _Linear(float(special.logit(share)), 1.0, gain * together * 0.5 / (share * (1.0 - share)))

    def _start(
        self, model: SkipNetwork, columns: int, linear: _Linear, counts: Array | None, public: np.random.Generator
    ) -> Array:
        """Small random hidden weights, which are no data, the linear fit, and the shares of classes."""
        settings, draw = self.settings, public.standard_normal
        inner = settings.start * draw(model.hidden * (model.seen + 1))
        outer = settings.output / math.sqrt(model.hidden) * draw(model.hidden * model.outputs)
        constant = np.zeros(model.outputs)
        if counts is not None:
            logs = np.log(counts)
            constant = logs[1:] - logs[0] if model.outputs == 1 else logs - logs.mean()
        slopes = linear.slopes if model.outputs == 1 else np.zeros(columns * model.outputs)
        return np.concatenate([inner, outer, constant, slopes])

    def _followed(
        self, model: SkipNetwork, rows: Array, targets: Array, linear: _Linear, counts: Array | None
    ) -> tuple[Array, Array, float]:
        """All stages: parameters, their covariance by noise and sampling, and the scale of residuals."""
        settings, problem = self.settings, self.problem
        theta = self._start(model, rows.shape[1], linear, counts, self.sources.fresh().generator(Purpose.START))
        # Rows of the public law that stands for whitened ones.
        law = np.random.default_rng(_SEED).standard_normal((_LAW_ROWS, rows.shape[1]))
        kept = max(1, int(settings.kept * settings.rounds))
        descent = gradients.NaturalDescent(theta, settings.momentum, kept, settings.rounds)
        numbers = problem.classes is None
        damping = settings.damping + problem.settings["prior_precision"] / self.records
        scale, made, root, slope = 1.0, 0, np.eye(len(theta)), gradients.Slope(1.0, 1.0)
        reach = settings.clip * math.sqrt(len(theta))
        for rounds in settings.rounds_of_stages:
            if numbers:
                sizes = gradients.residual_sizes(model, descent.theta, rows, targets)
                counts = gradients.residual_counts(next(self.specs), sizes, _ENDS, self.sources.fresh())
                scale = median_size(counts, _ENDS, self.records) / _NORMAL_MEDIAN
            asked = gradients.NaturalGradients(next(self.specs), model, rows, targets, self.sources.fresh())
            step_sizes = asked.algorithm.schedule("step_size").values(rounds)
            clip = scale * reach
            for k in range(rounds):
                if made % _RENEWED == 0:
                    root = gradients.inverse_root(model, descent.theta, law, damping)
                    slope = gradients.clipped_slope(model, gradients.MetricPoint(descent.theta, root, reach), law)
                mean = asked(gradients.MetricPoint(descent.theta, root, clip), k)
                descent.follow(root, mean, clip / slope.mean, float(step_sizes[k]), asked.noise)
                made += 1
        found = descent.settled(root, shrunk=settings.shrunk)
        sampling = scale**2 * slope.square / slope.mean**2 / self.records
        wider = 1.0 if numbers else 1.0 + MISJUDGED * linear.doubt
        covariance = wider * ((found.noise + sampling) * (root @ root) + np.outer(found.doubt, found.doubt))
        return found.theta, covariance + 1e-12 * np.eye(len(theta)), scale
