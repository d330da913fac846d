"""A fit as a generator of queries: each `yield` is a statistic, and what comes back is its noised answer.

The order is public. Columns first (centre, squares, scatter, and once more after whitening), then the lengths of
whitened rows, then points: at each a gradient and a matrix of slopes, and a Newton step with the released slopes. At
the last point the squares of scores are released too. Everything here is a function of the plan and of the answers, so
a posterior replays it on a finished release.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.mechanisms.regression import point_statistics as points
from sordino.mechanisms.regression.families import HUBER, At, Poisson
from sordino.mechanisms.regression.first_answers import FirstAnswers
from sordino.mechanisms.regression.matrices import inverse as inverse_of
from sordino.mechanisms.regression.matrices import power, shrunk
from sordino.mechanisms.regression.plan import Plan
from sordino.mechanisms.regression.point_statistics import Round
from sordino.mechanisms.regression.prior import Effects, ModelRows
from sordino.mechanisms.regression.tails import Tail
from sordino.noise.port import Statistic

Steps = Generator[Statistic, Array, "Learned"]

# Of normal errors, the median of sizes and what nine tenths of them are below, in standard deviations.
_MEDIAN, _NINE_TENTHS = 0.6745, 1.645
# Before the last point residuals of least squares are cut here; it is Huber's threshold where budgets are poor.
_EARLY_CUT = 2.0
# Residuals in standard deviations are counted up to here.
_MOST_RESIDUAL = 40.0
# Slopes of cut residuals are the share that is not cut, of which this is the least that is believed.
_LEAST_INSIDE = 0.05
# What is cut of residuals may point somewhere beyond what is corrected for, by this share of its mean size: of numbers,
# whose mean, tilt and size are released; and of counts, where the law says where it points and its dispersion is read.
_STRAY, _STRAY_COUNTS = 0.01, 0.1
# The error of moving a gradient along a straight line, relative to the move and to its length: half the second
# derivative of a logistic curve over its first.
_BEND = 0.5
# Public rows say how a gradient bends between two points; half of what they say may be wrong.
_CURVE_ERROR = 0.5
# Steps end here, in whitened units, so that no noise throws a point out of reach: targets that are numbers lie between
# -1 and 1, and a step of 2.5 changes log odds or log rates of most rows by as much.
_LONGEST_STEP = 2.5
# How far squares of scores may be from what the model says, as a share.
_MODEL_ERROR = 0.3
# The least share of all squares of scores that a cut leaves; it leaves three quarters or more wherever noise is small.
_LEAST_KEPT = 0.5
# Floors of slopes, relative to what they are drawn to: of early points, and of the last.
_STEP_FLOOR, _LAST_FLOOR = 0.1, 0.02


@dataclass
class Learned:
    """All that a posterior is computed from.

    Attributes:
        effects: the prior.
        rows: how gradients bend.
        to_encoded: from whitened coefficients to encoded ones.
        at: the last point.
        gradient: the mean gradient at the last point, all rounds together.
        away: how far from it the rounds were asked on average, which their gradients are moved by.
        noise: the variance of the noise in it.
        slopes: the matrix of slopes there, and `open`, the variances that noise leaves of its entries.
        slopes_noise: the standard deviation of the noise of slopes along any direction.
        sampling: the covariance of the gradient's sampling error.
        extra: the covariance of what corrections leave open.
        bend: the relative error of a straight line of length 1.
        moved: what the intercept is moved by, with its standard error.
        scale: of residuals of numbers; 0 elsewhere. `scale_error` is its relative error.
        dispersion: of counts.
        trace: intermediate numbers for studies of the engine.
    """

    effects: Effects
    rows: ModelRows
    to_encoded: Array
    at: Array
    gradient: Array
    away: Array
    noise: float
    slopes: Array
    open: Array
    slopes_noise: float
    sampling: Array
    extra: Array
    bend: float
    moved: tuple[float, float] = (0.0, 0.0)
    scale: float = 0.0
    scale_error: float = 0.0
    dispersion: float = 0.0
    trace: dict[str, float] = field(default_factory=dict)


class _Known(NamedTuple):
    """What is known at a point: its round, the mean gradient with its variance, and slopes; see `Learned`."""

    own: Round
    gradient: Array
    away: Array
    variance: float
    whole: float
    slopes: Array
    open: Array
    unit: float
    slopes_noise: float


def steps(plan: Plan) -> Steps:
    """The statistics of a fit, one after the other."""
    return _Learner(plan).learn()


class _Learner(FirstAnswers):
    def learn(self) -> Steps:
        yield from self.read_target()
        yield from self.read_columns()
        yield from self.read_lengths()
        return (yield from self.follow())

    def round(self, point: Array, at: At, spread: Array | None = None) -> Round:
        """Public numbers of a round."""
        shaped = point.reshape(-1, self.outputs)
        return Round(self.plan.family, self.declaration, shaped, at, self.tau, self.far, spread)

    @property
    def stray_share(self) -> float:
        return _STRAY if self.kind.start == "number" else _STRAY_COUNTS

    def best_cut(self, tail: Tail, place: int, least: float) -> float:
        """Where to cut residuals: sampling, noise and what is left undirected, over the slope."""
        n, slope = self.n, np.maximum(1.0 - tail.above / self.n, _LEAST_INSIDE)
        noise = self.noise(f"gradient {place}") * self.two * self.tau / n
        sampling = (tail.square - tail.lost_squares / n) / n
        stray = self.stray_share * math.sqrt(self.columns + 1.0) * tail.lost / n
        cost = (sampling + (noise * tail.cuts) ** 2 + stray**2) / slope**2
        return float(tail.cuts[int(np.argmin(np.where(tail.cuts < least, np.inf, cost)))])

    def follow(self) -> Steps:
        """All points, and what is known at the last."""
        plan, whitening = self.plan, self.frame.whitening
        effects = Effects(whitening, self.scale, self.middle)
        point, at, step = effects.middle.copy(), self.first, 0.0
        self.most_residual = 2.0
        asked: list[tuple[Array, float, Array]] = []
        known: _Known | None = None
        for place in range(1, plan.rounds + 1):
            last = place == plan.rounds
            at, spread = yield from self.read_residuals(point, at, place, known)
            own = self.round(point, at._replace(last=last), spread)
            known = yield from self.ask_point(place, own, asked)
            if not last:
                inverse = np.eye(len(point)) / known.whole
                new, _ = settled(
                    self.rows, effects, point, known.gradient + known.slopes @ known.away, known.slopes, inverse
                )
                step, point = float(np.linalg.norm(new - point)), new
        if known is None:
            raise refuse("the plan", "to have a point", 0)
        sampling, extra = yield from self.read_meat(known)
        to = np.eye(1 + self.columns)
        to[0, 1:], to[1:, 1:] = -self.frame.centre @ whitening, whitening
        scale, scale_error, dispersion = self.residual_scale(at)
        trace = {
            "tau": self.tau / math.sqrt(self.columns + 1.0),
            "far": self.far / self.tau,
            "cut": at.cut,
            "noise": math.sqrt(known.variance),
            "sampling": math.sqrt(float(np.trace(sampling)) / len(point)),
            "slopes_noise": known.slopes_noise / max(float(np.mean(np.diag(known.slopes))), 1e-300),
            "last_step": step,
        }
        return Learned(
            effects,
            self.rows,
            np.asarray(np.kron(to, np.eye(self.outputs)), np.float64),
            point,
            known.gradient,
            known.away,
            known.variance,
            known.slopes,
            known.open,
            known.slopes_noise,
            sampling,
            extra,
            (1.0 if self.kind.start == "number" else self.top) / known.unit,
            self.moved,
            scale,
            scale_error,
            dispersion,
            trace,
        )

    def read_residuals(
        self, point: Array, at: At, place: int, before: "_Known | None"
    ) -> Generator[Statistic, Array, tuple[At, Array | None]]:
        """Scale and cut of residuals at a point, and the scale of a row, as far as the family has them."""
        plan, last = self.plan, place == self.plan.rounds
        if self.kind.start == "number":
            at = yield from self.read_scale(point, place)
            if last and plan.corrected and before is not None:
                return (yield from self.correct(point, at, before.slopes))
            if last and plan.family == "linear":
                yield from self.move_to_mean(point, at)
            return at, None
        if isinstance(self.kind, Poisson):
            return (yield from self.read_counts(point, at, place, last=last)), None
        return self.first if place == 1 else self.first._replace(level=None), None

    def ask_point(
        self, place: int, own: Round, asked: list[tuple[Array, float, Array]]
    ) -> Generator[Statistic, Array, "_Known"]:
        """Gradient and slopes at a point, and what earlier rounds say there."""
        plan, last, at = self.plan, place == self.plan.rounds, own.at
        point = own.point.ravel()
        gradient, noise = yield from self.ask(points.Gradient(f"gradient {place}", own.gradient_bound, self.frame, own))
        matrix, matrix_noise = yield from self.ask(points.Slopes(f"slopes {place}", own.slope_bound, self.frame, own))
        # A direction that is flatter than the noise is read as flat as the noise.
        seen = matrix_noise / max(float(np.mean(np.diag(matrix)[self.outputs :])), matrix_noise)
        floor = max(_LAST_FLOOR, min(seen, _STEP_FLOOR)) if last else _STEP_FLOOR
        like = self.rows.slopes(point)
        slopes, left = shrunk(matrix, matrix_noise, self.tuned.near, floor, like, self.outputs)
        if last and plan.corrected:
            inside = max(self.inside, 0.2)
            self.direction = slopes[:, 0] / inside
            slopes[0, 0] /= inside
            asked.clear()
        asked.append((gradient, noise**2, point))
        # Earlier rounds are moved to this point; the further away they were asked, the less they count.
        distances = np.array([before - point for _, _, before in asked])
        squares, open_slopes = np.sum(distances**2, axis=1), float(np.mean(left))
        unit = at.cut * at.scale if self.kind.start == "number" else 1.0
        if self.rows.bends:
            ways = np.array([self.rows.moved(point, before)[0] for _, _, before in asked])
            bent = _CURVE_ERROR**2 * np.sum(((ways - distances) @ slopes) ** 2, axis=1)
            distances = ways
        else:
            bent = np.minimum(1.0, _BEND**2 * squares / unit**2) * np.sum((distances @ slopes) ** 2, axis=1)
        variances = np.array([variance for _, variance, _ in asked]) + bent
        weights = 1.0 / (variances + open_slopes * squares)
        weights /= weights.sum()
        variance = float(weights**2 @ variances)
        return _Known(
            own,
            weights @ np.array([one for one, _, _ in asked]),
            weights @ distances,
            variance,
            variance + float(weights**2 @ squares) * open_slopes,
            slopes,
            left,
            unit,
            matrix_noise,
        )

    # ----------------------------------------------------------------------------------------------- numbers: scale

    def read_scale(self, point: Array, place: int) -> Generator[Statistic, Array, At]:
        """The scale of residuals, by their median size; and where they are cut."""
        plain = self.round(point, At(cut=1.0))
        tail = yield from self.tail(
            points.Residuals(f"residuals {place}", 1.0, self.frame, plain, self.most_residual), self.most_residual
        )
        scale = max(tail.quantile(0.5) / _MEDIAN, 1e-9)
        self.most_residual = min(2.0, _MOST_RESIDUAL * scale)
        self.errors = tail
        cut = HUBER if self.plan.family == "robust" or self.plan.plain else _EARLY_CUT
        return At(scale=scale, cut=cut)

    def move_to_mean(self, point: Array, at: At) -> Generator[Statistic, Array, None]:
        """Poor budgets: Huber's intercept is off by the mean of what is cut, which is released."""
        tail, n = self.errors, self.n
        cut, _ = tail.best(self.noise("cut-off") * self.two)
        cut = max(cut / at.scale - at.cut, 0.1)
        own = self.round(point, at)
        four, noise = yield from self.ask(points.CutOff("cut-off", math.sqrt(3.0), self.frame, own, cut))
        lost = float(np.interp(at.cut * at.scale, tail.cuts, tail.lost_squares)) / n**2
        self.moved = float(four[0]) * cut * at.scale, math.sqrt((noise * cut * at.scale) ** 2 + lost)

    def correct(self, point: Array, at: At, slopes: Array) -> Generator[Statistic, Array, tuple[At, Array]]:
        """Rich budgets: the scale of a row, the cut, and the means that add back what is cut."""
        own, n = self.round(point, at._replace(cut=1.0)), self.n
        sums, noise = yield from self.ask(points.Spread("spread", 0.5 * points.MOST_SIZE * self.tau, self.frame, own))
        # For normal errors min(|e|, 3) has mean .78 and moves by .7 with the logarithm of the scale.
        gamma = np.linalg.solve(0.7 * slopes, sums + (0.5 * points.MOST_SIZE - 0.78) * slopes[:, 0])
        error = noise / (0.7 * float(np.mean(np.diag(slopes))))
        kept = max(float(np.mean(gamma[1:] ** 2)) - error**2, 0.02**2)
        spread = np.append(0.0, gamma[1:] * kept / (kept + error**2))
        own = self.round(point, at._replace(cut=1.0), spread)
        statistic = points.Residuals("spread-residuals", 1.0, self.frame, own, _MOST_RESIDUAL)
        tail = yield from self.tail(statistic, _MOST_RESIDUAL)
        cut = self.best_cut(tail, self.plan.rounds, 0.8)
        off, left = tail.best(self.noise("cut-off") * self.two)
        off = max(off - cut, 0.2)
        own = self.round(point, at._replace(cut=cut), spread)
        four, noise = yield from self.ask(points.CutOff("cut-off", math.sqrt(3.0), self.frame, own, off))
        shift = float(np.clip(four[0] * off, -0.5 * cut, 0.5 * cut))
        outer = max(float(four[3]) * cut, 0.2)
        tilt = float(np.clip(four[1] * cut / outer, -0.4, 0.4))
        size = float(np.clip(four[2] * cut, 0.0, cut))
        self.inside = float(1.0 - np.interp(cut, tail.cuts, tail.above) / n)
        squares = (noise * off) ** 2 + (left / n) ** 2 + (tilt * noise * cut) ** 2
        self.error = at.scale * math.sqrt(squares)
        self.stray = at.scale * self.stray_share * float(np.interp(cut, tail.cuts, tail.lost)) / n
        self.shift_cut, self.errors = off, tail
        # What a row can add to the released means, see `point_statistics._cut_off`.
        self.most_shift = at.scale * (off + abs(shift) + abs(tilt) * cut)
        return at._replace(cut=cut, shift=shift, tilt=tilt, size=size), spread

    # -------------------------------------------------------------------------------------------------------- counts

    def read_counts(self, point: Array, at: At, place: int, *, last: bool) -> Generator[Statistic, Array, At]:
        """The dispersion of counts; and at the last point the cut, and by which factor the law's correction is off."""
        n, overdispersed = self.n, self.plan.family == "negative-binomial"
        if not last and not overdispersed:
            return at
        own = self.round(point, at)
        statistic = points.Residuals(f"residuals {place}", 1.0, self.frame, own, _MOST_RESIDUAL)
        tail = yield from self.tail(statistic, _MOST_RESIDUAL)
        if overdispersed:
            # Mean squares are (1 + d m) / (1 + d' m) on average, m weighed by itself as a log-normal rate is.
            rate = self.first.typical * math.exp(min(float(np.sum(point[1:] ** 2)), 1.5))
            dispersion = ((1.0 + at.dispersion * rate) * min(tail.square, 20.0) - 1.0) / rate
            dispersion = float(np.clip(dispersion, 0.0, 10.0))
            at = at._replace(
                dispersion=dispersion, typical=self.first.typical / (1.0 + dispersion * self.first.typical)
            )
        if not last:
            return at
        cut = self.best_cut(tail, self.plan.rounds, 1.2)
        off, left = tail.best(self.noise("cut-counts") * self.two)
        off = max(off - cut, 0.5)
        own = self.round(point, at._replace(cut=cut))
        both, noise = yield from self.ask(points.CutCounts("cut-counts", math.sqrt(2.0), self.frame, own, off))
        seen, law = both * off
        factor = float(np.clip((seen + 1e-3) / (max(law, 0.0) + 1e-3), 0.0, 4.0))
        lost, lost_squares = (float(np.interp(cut, tail.cuts, one)) for one in (tail.lost, tail.lost_squares))
        # The factor is a mean over the same rows; squares of what is cut say how far it varies with them.
        sampling = max(lost_squares - 2.0 * cut * lost, 0.0) / n**2
        squares = (noise * off * math.hypot(1.0, factor)) ** 2 + (left / n) ** 2 + sampling
        self.error = math.sqrt(squares / at.typical)
        self.stray = self.stray_share * lost / n / math.sqrt(at.typical)
        return at._replace(cut=cut, factor=factor)

    # ---------------------------------------------------------------------------------------------------------- meat

    def read_meat(self, known: _Known) -> Generator[Statistic, Array, tuple[Array, Array]]:
        """The covariance of the mean score, and that of what corrections leave open."""
        own, slopes = known.own, known.slopes
        most, direction, shift = own.gradient_bound, None, 0.0
        if self.plan.corrected:
            direction, shift = self.direction, self.shift_cut
            most = most + float(np.linalg.norm(direction)) * self.most_shift
        cut, kept = most, 1.0
        if not self.kind.per_unit:
            statistic = points.ScoreSizes("score-sizes", 1.0, self.frame, own, most, most, direction, shift)
            tail = yield from self.tail(statistic, most)
            cut = min(most, tail.best(self.noise("meat") * self.root, square=True)[0])
            # What is cut off squares is missing from every direction alike, as far as anyone knows.
            lost = float(np.interp(cut, tail.cuts, tail.lost_squares)) / (tail.square * tail.records)
            kept = max(1.0 - lost, _LEAST_KEPT)
        meat, noise = yield from self.ask(points.Meat("meat", cut**2, self.frame, own, cut, direction, shift))
        meat, noise = meat / kept, noise / kept
        half, less = power(slopes, 0.5), power(slopes, -0.5)
        own_noise, turned = noise * float(np.mean(np.diag(less @ less))), less @ meat @ less
        # Squares of scores are like slopes up to a factor, which the model knows unless a unit has several records.
        # Then it is between 1 / m of that, for unlike ones, and all of it, which is taken where noise hides it.
        expected, error = self.expected_factor(own.at)
        least = max(expected - error, 0.1 * expected)
        seen = float(np.mean(np.diag(turned)[self.outputs :]))
        precision, prior = len(turned) / own_noise**2, 1.0 / error**2
        factor = max((precision * seen + prior * expected) / (precision + prior), least)
        floor = 0.3 if self.declaration.grouped else 0.5
        inner = shrunk(turned, own_noise, (0.2, 0.07), floor, np.eye(len(meat)), self.outputs, factor).matrix
        extra = np.zeros_like(slopes)
        if self.plan.corrected:
            extra = self.error**2 * np.outer(self.direction, self.direction) + self.stray**2 * slopes @ slopes
        elif self.kind.start == "counts":
            extra = self.error**2 * np.outer(slopes[:, 0], slopes[:, 0]) + self.stray**2 * slopes @ slopes
        return half @ inner @ half / self.n, extra

    def expected_factor(self, at: At) -> tuple[float, float]:
        """Squares of scores over slopes, as the model has it; and how far that may be off."""
        model = 1.0
        if self.kind.start == "number":
            unit, cut = (at.scale, at.cut) if self.plan.corrected else (1.0, at.cut * at.scale)
            errors, n = self.errors, self.n
            square = errors.square - float(np.interp(cut, errors.cuts, errors.lost_squares)) / n
            inside = 1.0 - float(np.interp(cut, errors.cuts, errors.above)) / n
            model = unit**2 * max(square, 0.01 * cut**2) / max(inside, 0.2)
        elif self.kind.per_unit:
            return 1.0 / self.declaration.most_records, _MODEL_ERROR / self.declaration.most_records
        apart = 0.5 * (1.0 - 1.0 / self.declaration.most_records) if self.declaration.grouped else 0.0
        return model, model * (_MODEL_ERROR + apart)

    def residual_scale(self, at: At) -> tuple[float, float, float]:
        """The standard deviation of errors with its relative error, and the dispersion of counts."""
        if self.kind.start != "number":
            return 0.0, 0.0, at.dispersion
        # Between the scale that the median of sizes says and the one that nine tenths of them say, for normal errors:
        # mean squares would depend on a tail that noise hides.
        unit = at.scale if self.plan.corrected else 1.0
        scale = unit * math.sqrt(self.errors.quantile(0.5) / _MEDIAN * self.errors.quantile(0.9) / _NINE_TENTHS)
        return max(scale, 1e-9), math.sqrt(1.0 / self.n + (2.0 * self.noise("residuals 1") / self.n) ** 2), 0.0


def settled(
    rows: ModelRows, effects: Effects, at: Array, gradient: Array, slopes: Array, inverse: Array
) -> tuple[Array, Array]:
    """Where gradient and prior balance, with the prior's factors at their posterior mean; and these factors."""
    t = at.copy()
    factors = np.ones(len(effects.whitening))
    for turn in range(12):
        prior = effects.precision(factors)
        way, turned = rows.moved(at, t)
        own = slopes @ turned
        covariance = inverse_of(own.T @ inverse @ own + prior)
        d = covariance @ (own.T @ inverse @ (gradient - slopes @ way) - prior @ (t - effects.middle))
        # Damped in the end: the curve may have no root where noise has thrown the gradient out of its range.
        t = t + d * min(1.0, 0.7 / max(float(np.linalg.norm(d)), 1e-12)) * (1.0 if turn < 5 else 0.6)
        t = at + (t - at) * min(1.0, _LONGEST_STEP / max(float(np.linalg.norm(t - at)), 1e-12))
        factors = effects.likely_factors(t, covariance)
    return t, factors
