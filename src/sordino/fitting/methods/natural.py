"""Networks with a linear part by private natural gradients: whiten, then follow noised gradients of length 1.

Two noised sums of products of rows whiten them and give a linear start; rounds of natural gradients follow. For a
number the scale of the residuals is counted before each stage of rounds, which sets the clip, and once more in the end,
for intervals of new targets. What is asked, and how large the network is, follows from public numbers (`natural_plan`).
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.fitting.declaration import EncodedRows
from sordino.fitting.methods.base import FitPlan, Method, Outcome, in_parts, method, sums_of, target_bound
from sordino.fitting.methods.natural_plan import (
    SETTINGS,
    NaturalSettings,
    columns_read,
    natural_predicted,
    natural_specs,
    network_of,
    room_for_parameters,
    settings_for,
    sums_options,
)
from sordino.fitting.problem import FitProblem, Sources, class_codes
from sordino.ledger.release.coverage import RAREST, RAREST_OVER_SIZE
from sordino.mechanisms.networks.natural_gradients import (
    MetricPoint,
    NaturalDescent,
    NaturalGradients,
    Slope,
    Whitening,
    class_counts,
    clipped_slope,
    inverse_root,
    residual_counts,
    residual_sizes,
    whitening,
)
from sordino.mechanisms.posterior.network import NetworkPosterior, median_size, residual_law
from sordino.mechanisms.statistics.second_moments import run_statistics
from sordino.models.base import describe_model
from sordino.models.families.networks import SkipNetwork
from sordino.noise.integer_sums import COVERED
from sordino.noise.randomness import Purpose
from sordino.noise.whole_rows import own_products

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


@method("natural")
class NaturalNetwork(Method):
    """Noised natural gradients of a network with one hidden layer beside a linear part."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def __init__(self, settings: dict[str, NaturalSettings] | None = None) -> None:
        self.settings = SETTINGS if settings is None else settings

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

    def plan(self, problem: FitProblem) -> FitPlan:
        settings = self._settings(problem)
        specs = natural_specs(problem, settings)
        return FitPlan(self, problem, in_parts(problem, *specs), natural_predicted(problem, settings))

    def run(self, plan: FitPlan, rows: EncodedRows, sources: Sources) -> Outcome:
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

    def outcome(self) -> Outcome:
        settings, problem = self.settings, self.problem
        transform, linear = self._whitened()
        rows = self._rows(transform)
        numbers = problem.classes is None
        codes = (self.y - linear.mean) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)
        targets = np.asarray(codes, np.float64)
        model = network_of(problem, settings)
        counts = None if numbers else self._classes(targets)
        found, covariance, scale = self._followed(model, rows, targets, linear, counts)
        if counts is not None:
            fewest = float(counts.min())
            rarest = {RAREST: fewest * problem.mu, RAREST_OVER_SIZE: fewest * model.outputs / len(found)}
            return Outcome(NetworkPosterior(model, transform, found, covariance), describe_model(model), rarest)
        ends, spec = scale * _LAST_ENDS, next(self.specs)
        sized = residual_counts(spec, residual_sizes(model, found, rows, targets), ends, self.sources.fresh())
        variance, exponent = residual_law(sized, ends, self.records, float(sums_of(spec).sum_noise[0]))
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
        return Outcome(NetworkPosterior(network, transform, means, covariance), describe_model(network), settled)

    def _classes(self, codes: Array) -> Array:
        """How many records each class has, with noise; as many as the noise where it hides them."""
        spec = next(self.specs)
        counts = class_counts(spec, codes, self.problem.classes or 2, self.sources.fresh())
        return np.maximum(counts, float(sums_of(spec).sum_noise[0]))

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
            release = run_statistics(next(self.specs), rows, targets, self.sources.fresh(), options=options)
            gram, cross, square = options.stack.parts(release.statistics, rows.shape[1])
            unit = length**2 / self.records
            step = whitening(unit * gram, unit * release.noise, columns.seen)
            of_target = length * options.target_bound / self.records
            error = of_target * release.noise / options.stack.cross
            squared = options.target_bound**2 * square / self.records
            linear = self._linear(step, unit * gram, of_target * cross, error, squared)
            relative = unit * release.noise * np.linalg.norm(step.transform[:-1, :-1], axis=0) ** 2
            linear = linear._replace(doubt=float(relative @ relative))
            transform = np.column_stack([transform, np.eye(len(transform))[-1]]) @ step.transform[:, :-1]
            length = math.sqrt(_ROOM * (1.0 + float(step.variances.sum())))
        return transform, linear

    def _linear(self, step: Whitening, moments: Array, cross: Array, error: float, square: float) -> _Linear:
        """Slopes of whitened columns, each shrunk by what is known of the noise in it."""
        bound = target_bound(self.problem) if self.problem.classes is None else 1.0
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
        descent = NaturalDescent(theta, settings.momentum, kept, settings.rounds)
        numbers = problem.classes is None
        damping = settings.damping + problem.settings["prior_precision"] / self.records
        scale, made, root, slope = 1.0, 0, np.eye(len(theta)), Slope(1.0, 1.0)
        reach = settings.clip * math.sqrt(len(theta))
        for rounds in settings.rounds_of_stages:
            if numbers:
                sizes = residual_sizes(model, descent.theta, rows, targets)
                counts = residual_counts(next(self.specs), sizes, _ENDS, self.sources.fresh())
                scale = median_size(counts, _ENDS, self.records) / _NORMAL_MEDIAN
            asked = NaturalGradients(next(self.specs), model, rows, targets, self.sources.fresh())
            step_sizes = asked.algorithm.schedule("step_size").values(rounds)
            clip = scale * reach
            for k in range(rounds):
                if made % _RENEWED == 0:
                    root = inverse_root(model, descent.theta, law, damping)
                    slope = clipped_slope(model, MetricPoint(descent.theta, root, reach), law)
                mean = asked(MetricPoint(descent.theta, root, clip), k)
                descent.follow(root, mean, clip / slope.mean, float(step_sizes[k]), asked.noise)
                made += 1
        found = descent.settled(root, shrunk=settings.shrunk)
        sampling = scale**2 * slope.square / slope.mean**2 / self.records
        wider = 1.0 if numbers else 1.0 + MISJUDGED * linear.doubt
        covariance = wider * ((found.noise + sampling) * (root @ root) + np.outer(found.doubt, found.doubt))
        return found.theta, covariance + 1e-12 * np.eye(len(theta)), scale
