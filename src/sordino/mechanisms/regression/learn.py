"""A fit as a generator of queries: each `yield` is a statistic, and what comes back is its noised answer.

The order is public. Columns first (centre, squares, scatter, and once more after whitening), then the lengths of
whitened rows, then points: at each a gradient and a matrix of slopes, and a Newton step with the released slopes. At
the last point the squares of scores are released too. Everything here is a function of the plan and of the answers, so
a posterior replays it on a finished release.
"""

import math
from collections.abc import Generator
from functools import partial
from typing import NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.mechanisms.regression import statistics as of
from sordino.mechanisms.regression.families import HUBER, At
from sordino.mechanisms.regression.first_answers import FirstAnswers, Read
from sordino.mechanisms.regression.noised import floored, inverse_of, on_and_off, power, shrunk
from sordino.mechanisms.regression.prior import Effects, ModelRows
from sordino.mechanisms.regression.rows import FitRound
from sordino.mechanisms.regression.secants import Secants
from sordino.noise.port import Statistic

# Of normal errors, the median of sizes and what nine tenths of them are below, in standard deviations.
_MEDIAN, _NINE_TENTHS = 0.6745, 1.645
# Before the last point residuals of least squares are cut here; it is Huber's threshold where budgets are poor.
_EARLY_CUT = 2.0
_MOST_RESIDUAL = 40.0  # residuals in standard deviations are counted up to here
# Slopes of cut residuals are the share that is not cut, of which this is the least that is believed.
_LEAST_INSIDE = 0.05
# What is cut of residuals may point somewhere beyond what is corrected for, by this share of its mean size: of numbers,
# whose mean, tilt and size are released; and of counts, where the law says where it points and its dispersion is read.
_STRAY, _STRAY_COUNTS = 0.01, 0.1
# The error of moving a gradient along a straight line, relative to the move and to its length: half the second
# derivative of a logistic curve over its first.
_BEND = 0.5
_CURVE_ERROR = 0.5  # public rows say how a gradient bends between two points; half of what they say may be wrong
# Steps end here, in whitened units, so that no noise throws a point out of reach: targets that are numbers lie between
# -1 and 1, and a step of 2.5 changes log odds or log rates of most rows by as much.
_LONGEST_STEP = 2.5
_MODEL_ERROR = 0.3  # how far squares of scores may be from what the model says, as a share
# The least share of all squares of scores that a cut leaves; it leaves three quarters or more wherever noise is small.
_LEAST_KEPT = 0.5
# Slopes at another point change as those of public rows do, up to this share of how far slopes are from public rows.
_DRIFT = 0.25
_LEAST_LEVEL = 0.1  # later slopes are at least this share of what earlier ones say
_NO_LEVEL = 10.0  # how far slopes may be from public rows, where these do not say how large they are, as a share
# Floors of slopes, relative to what they are drawn to: of early points, and of the last.
_STEP_FLOOR, _LAST_FLOOR = 0.1, 0.02


class Asked(NamedTuple):
    """A point with its gradient."""

    gradient: Array
    variance: float  # of the noise in it
    point: Array
    unit: float  # where residuals of numbers were cut
    rows: ModelRows  # as they count there


class Known(NamedTuple):
    """What is known at a point."""

    rows: ModelRows  # how gradients bend, with the rows as they count here
    own: FitRound
    at: Array  # the coefficients there
    gradient: Array  # the mean gradient, of this round and of earlier ones that are moved here
    away: Array  # how far from here the rounds were asked on average, which their gradients are moved by
    noise: float  # the variance of the noise in it
    whole: float  # the same with what open slopes add
    read: Array  # the matrix of slopes as it was read
    open: Array  # the variances that noise leaves of its entries
    secants: Secants  # what gradients at several points say of slopes
    slopes: Array  # slopes with that
    slopes_noise: float  # that of all matrices of slopes together, along any direction, as a share of slopes
    share: float  # of a slope, that cutting residuals of numbers leaves
    level_error: float  # of the mean of the slopes' diagonal, as a share
    unit: float  # the length of a step along which a mean gradient of numbers bends


class Learned(NamedTuple):
    """All that a posterior is computed from."""

    effects: Effects  # the prior
    to_encoded: Array  # from whitened coefficients to encoded ones
    last: Known  # what is known at the last point
    sampling: Array  # the covariance of the gradient's sampling error
    extra: Array  # the covariance of what corrections leave open
    bend: float  # the relative error of a straight line of length 1
    moved: tuple[float, float]  # what the intercept is moved by, with its standard error
    scale: float  # of residuals of numbers; 0 elsewhere
    scale_error: float  # relative
    dispersion: float  # of counts


class Learner(FirstAnswers):
    """The statistics of a fit, one after the other, and what is learned from their answers."""

    def learn(self) -> Generator[Statistic, Array, Learned]:
        """Columns and lengths, all points, and what is known at the last."""
        self.asked = list[Asked]()
        self.stray_share = _STRAY if self.kind.start == "number" else _STRAY_COUNTS
        yield from self.read_target()
        yield from self.read_columns()
        yield from self.read_lengths()
        whitening = self.frame.whitening
        effects = Effects(whitening, self.kind.effect_scale, self.middle)
        known = yield from self.ask_point(1, effects.middle, self.first, None)
        for place in range(2, self.plan.rounds + 1):
            point, _ = settled(effects, known, np.eye(len(known.at)) / known.whole)
            known = yield from self.ask_point(place, point, known.own.at, known)
        sampling, extra = yield from self.read_meat(known)
        to = np.eye(1 + self.columns)
        to[0, 1:], to[1:, 1:] = -self.frame.centre @ whitening, whitening
        bend = (1.0 if self.kind.start == "number" else self.top) / known.unit
        to_encoded = np.asarray(np.kron(to, np.eye(self.outputs)), np.float64)
        scale, dispersion = self.residual_scale(known.own.at), known.own.at.dispersion
        return Learned(effects, to_encoded, known, sampling, extra, bend, self.moved, *scale, dispersion)

    def round(self, point: Array, at: At, spread: Array | None = None) -> FitRound:
        return FitRound(self.kind, self.frame, point.reshape(-1, self.outputs), at, self.tau, self.far, spread)

    def ask_point(self, place: int, point: Array, at: At, before: Known | None) -> Generator[Statistic, Array, Known]:
        """Gradient and slopes at a point, and what earlier rounds say there."""
        last, spread = place == self.plan.rounds, None
        if self.kind.start == "number":
            at = yield from self.read_scale(point, place)
            if last and self.plan.corrected and before is not None:
                at, spread = yield from self.correct(point, at, before.slopes)
            elif last and self.plan.family == "linear":
                yield from self.move_to_mean(point, at)
        elif self.kind.start == "counts":
            at = yield from self.read_counts(point, at, place, last=last)
        rows = self.rows.counted(point)
        own = self.round(point, at._replace(last=last), spread)
        gradient, noise = yield from self.ask(of.Gradient(f"gradient {place}", own.gradient_bound, own))
        matrix, matrix_noise = yield from self.ask(of.SlopeMatrix(f"slopes {place}", own.slope_bound, own))
        # A direction that is flatter than the noise is read as flat as the noise.
        seen = matrix_noise / max(float(np.mean(np.diag(matrix)[self.outputs :])), matrix_noise)
        floor = max(_LAST_FLOOR, min(seen, _STEP_FLOOR)) if last else _STEP_FLOOR
        share, near, far = self.share_of_slope(at, last=last), self.tuned.near, self.far_slopes
        if before is None:
            # Of numbers public rows say how large slopes are, too.
            like, spread = share * rows.slopes(point), far[0] if self.kind.start == "number" else _NO_LEVEL
        else:
            like, near = self.carried(before, rows.slopes(point), share)
            far, spread = near, math.hypot(self.tuned.near[0], before.level_error)
        level, error = self.level(like, matrix, matrix_noise, spread)
        read, left = shrunk(matrix, matrix_noise, near, far, floor, like, self.outputs, level)
        left = left + (error * read) ** 2
        if last and self.plan.corrected:
            inside = max(self.inside, 0.2)
            self.direction = read[:, 0] / inside
            read[0, 0] /= inside
            self.asked.clear()
        unit = at.cut * at.scale if self.kind.start == "number" else 1.0
        self.asked.append(Asked(gradient, noise**2, point, unit, rows))
        secants = self.moved_here(self.asked[-1], read, left)
        slopes, weights = floored(secants.condition(read), read, floor), secants.weights
        mean, away = weights @ secants.gradients, weights @ secants.ways
        variance = float(weights**2 @ secants.variances)
        whole = variance + float(away @ away * np.mean(left))
        hidden = matrix_noise / max(float(np.mean(np.diag(slopes))), 1e-300)
        if before is not None:
            hidden = 1.0 / math.hypot(1.0 / hidden, 1.0 / before.slopes_noise)
        return Known(
            rows, own, point, mean, away, variance, whole, read, left, secants, slopes, hidden, share, error, unit
        )

    def moved_here(self, here: Asked, read: Array, left: Array) -> Secants:
        """Gradients of all rounds with the ways to their points, and variances with what the ways leave open."""
        # Rows that count less in one round than in another give gradients and slopes that are smaller by a factor.
        slope = np.trace(here.rows.slopes(here.point))
        factors = np.array([slope / np.trace(one.rows.slopes(here.point)) for one in self.asked])
        gradients = np.array([one.gradient for one in self.asked]) * factors[:, None]
        variances = np.array([one.variance for one in self.asked]) * factors**2
        unit, units = here.unit, np.array([one.unit for one in self.asked])
        distances = np.array([one.point for one in self.asked]) - here.point
        if here.rows.curve:
            ways = np.array([one.rows.moved(here.point, one.point)[0] for one in self.asked])
            bent = _CURVE_ERROR**2 * np.sum(((ways - distances) @ read) ** 2, axis=1)
            distances = ways
        else:
            squares = np.sum(distances**2, axis=1)
            bent = np.minimum(1.0, _BEND**2 * squares / unit**2) * np.sum((distances @ read) ** 2, axis=1)
        # Residuals between two cuts count in one gradient more than in the other, by at most the ratio of the cuts.
        between = np.array([self.outside(min(one, unit)) for one in units]) * np.log(units / unit)
        size = np.maximum(np.mean(gradients**2, axis=1), np.mean((distances @ read) ** 2, axis=1))
        return Secants(gradients, variances + bent + between**2 * size, distances, left)

    def outside(self, unit: float) -> float:
        """The share of residuals of numbers that is cut."""
        return self.errors.at(unit).above / self.n if self.kind.start == "number" else 0.0

    def share_of_slope(self, at: At, *, last: bool) -> float:
        """The share of a slope that cutting residuals of numbers leaves, see `Linear`."""
        if self.kind.start != "number":
            return 1.0
        unit = at.cut if last and self.plan.corrected else at.cut * at.scale
        if last:
            return max(1.0 - self.outside(unit), _LEAST_INSIDE)
        return float(self.errors.inside @ np.minimum(1.0, unit / self.errors.middles)) / self.n

    def level(self, like: Array, matrix: Array, noise: float, spread: float) -> tuple[float, float]:
        """The mean of the slopes' diagonal, which is said to within the share `spread`, and its error as a share."""
        seen, said = (float(np.mean(np.diag(one)[self.outputs :])) for one in (matrix, like))
        own, prior = noise**2 / (len(like) - self.outputs), (spread * said) ** 2
        error = math.sqrt(own * prior / (own + prior))
        level = max((seen * prior + said * own) / (prior + own), error, _LEAST_LEVEL * said)
        return level, error / level

    def carried(self, before: Known, here: Array, share: float) -> tuple[Array, tuple[float, float]]:
        """What slopes at an earlier point say here, and how far, on and off the diagonal, that leaves entries open.

        They change as those of public rows do, which may be off by a share of how far slopes are from public rows.
        """
        turn = power(here, 0.5) @ power(before.rows.slopes(before.at), -0.5)
        like, k = (share / before.share) * (turn @ before.slopes @ turn.T), self.outputs
        roots = np.sqrt(np.diag(before.slopes)[k:])
        both = zip(self.tuned.near, on_and_off(before.open[k:, k:]), on_and_off(np.outer(roots, roots)), strict=True)
        on, off = (math.hypot(_DRIFT * near, math.sqrt(left) / max(unit, 1e-300)) for near, left, unit in both)
        return like, (on, off)

    def read_scale(self, point: Array, place: int) -> Generator[Statistic, Array, At]:
        """The scale of residuals of numbers, by their median size; and where they are cut."""
        plain = self.round(point, At(cut=1.0))
        most = 2.0 if place == 1 else min(2.0, _MOST_RESIDUAL * self.median)
        self.errors = yield from self.tail(f"residuals {place}", most, partial(of.residual_sizes, plain))
        self.median = max(self.errors.quantile(0.5) / _MEDIAN, 1e-9)
        return At(scale=self.median, cut=_EARLY_CUT if self.plan.corrected else HUBER)

    def move_to_mean(self, point: Array, at: At) -> Read:
        """Poor budgets: Huber's intercept is off by the mean of what is cut, which is released."""
        tail, unit = self.errors, at.scale
        cut = max(tail.best(self.noise("cut-off") * self.two)[0] / unit - at.cut, 0.1)
        own = self.round(point, at)
        four, noise = yield from self.ask(of.CutOff("cut-off", math.sqrt(3.0), own, cut))
        lost = tail.at(at.cut * unit).lost_squares / self.n**2
        self.moved = float(four[0]) * cut * unit, math.sqrt((noise * cut * unit) ** 2 + lost)

    def where_to_cut(self, name: str, least: float, further: float) -> tuple[float, float, float]:
        """Where to cut residuals, how far beyond what is cut off is itself cut, and what that loses."""
        tail, n = self.errors, self.n
        # At the cut sampling, noise and what is left undirected, over the slope, are least together.
        slope = np.maximum(1.0 - tail.above / n, _LEAST_INSIDE)
        noise = self.noise(f"gradient {self.plan.rounds}") * self.two * self.tau / n
        sampling = (tail.square - tail.lost_squares / n) / n
        stray = self.stray_share * math.sqrt(self.columns + 1.0) * tail.lost / n
        cost = (sampling + (noise * tail.cuts) ** 2 + stray**2) / slope**2
        cut = float(tail.cuts[tail.least(cost, least)])
        off, left = tail.best(self.noise(name) * self.two)
        return cut, max(off - cut, further), left

    def correct(self, point: Array, at: At, slopes: Array) -> Generator[Statistic, Array, tuple[At, Array]]:
        """Rich budgets: the scale of a row, the cut, and the means that add back what is cut."""
        own = self.round(point, at._replace(cut=1.0))
        sums, noise = yield from self.ask(of.Spread("spread", 0.5 * of.MOST_SIZE * self.tau, own))
        # For normal errors min(|e|, 3) has mean .78 and moves by .7 with the logarithm of the scale.
        gamma = np.linalg.solve(0.7 * slopes, sums + (0.5 * of.MOST_SIZE - 0.78) * slopes[:, 0])
        error = noise / (0.7 * float(np.mean(np.diag(slopes))))
        kept = max(float(np.mean(gamma[1:] ** 2)) - error**2, 0.02**2)
        spread = np.append(0.0, gamma[1:] * kept / (kept + error**2))
        own = self.round(point, at._replace(cut=1.0), spread)
        self.errors = yield from self.tail("spread-residuals", _MOST_RESIDUAL, partial(of.residual_sizes, own))
        cut, off, left = self.where_to_cut("cut-off", 0.8, 0.2)
        own = self.round(point, at._replace(cut=cut), spread)
        four, noise = yield from self.ask(of.CutOff("cut-off", math.sqrt(3.0), own, off))
        shift = float(np.clip(four[0] * off, -0.5 * cut, 0.5 * cut))
        outer = max(float(four[3]) * cut, 0.2)
        tilt = float(np.clip(four[1] * cut / outer, -0.4, 0.4))
        size = float(np.clip(four[2] * cut, 0.0, cut))
        there = self.errors.at(cut)
        self.inside = 1.0 - there.above / self.n
        squares = (noise * off) ** 2 + (left / self.n) ** 2 + (tilt * noise * cut) ** 2
        self.error = at.scale * math.sqrt(squares)
        self.stray = at.scale * self.stray_share * there.lost / self.n
        # What a row can add to the released means, see `statistics.Scores`.
        self.shift_cut, self.most_shift = off, at.scale * (off + abs(shift) + abs(tilt) * cut)
        return at._replace(cut=cut, shift=shift, tilt=tilt, size=size), spread

    def read_counts(self, point: Array, at: At, place: int, *, last: bool) -> Generator[Statistic, Array, At]:
        """The dispersion of counts; and at the last point the cut, and by which factor the law's correction is off."""
        n, overdispersed = self.n, self.plan.family == "negative-binomial"
        if not last and not overdispersed:
            return at
        own = self.round(point, at)
        self.errors = yield from self.tail(f"residuals {place}", _MOST_RESIDUAL, partial(of.residual_sizes, own))
        if overdispersed:
            # Mean squares are (1 + d m) / (1 + d' m) on average, m weighed by itself as a log-normal rate is.
            typical = self.first.typical
            rate = typical * math.exp(min(float(np.sum(point[1:] ** 2)), 1.5))
            dispersion = ((1.0 + at.dispersion * rate) * min(self.errors.square, 20.0) - 1.0) / rate
            dispersion = float(np.clip(dispersion, 0.0, 10.0))
            at = at._replace(dispersion=dispersion, typical=typical / (1.0 + dispersion * typical))
        if not last:
            return at
        cut, off, left = self.where_to_cut("cut-counts", 1.2, 0.5)
        own = self.round(point, at._replace(cut=cut))
        both, noise = yield from self.ask(of.CutCounts("cut-counts", math.sqrt(2.0), own, off))
        seen, law = both * off
        factor = float(np.clip((seen + 1e-3) / (max(law, 0.0) + 1e-3), 0.0, 4.0))
        there = self.errors.at(cut)
        # The factor is a mean over the same rows; squares of what is cut say how far it varies with them.
        sampling = max(there.lost_squares - 2.0 * cut * there.lost, 0.0) / n**2
        squares = (noise * off * math.hypot(1.0, factor)) ** 2 + (left / n) ** 2 + sampling
        self.error = math.sqrt(squares / at.typical)
        self.stray = self.stray_share * there.lost / n / math.sqrt(at.typical)
        return at._replace(cut=cut, factor=factor)

    def read_meat(self, known: Known) -> Generator[Statistic, Array, tuple[Array, Array]]:
        """The covariance of the mean score, and that of what corrections leave open."""
        own, slopes = known.own, known.slopes
        most, scores = own.gradient_bound, of.Scores(own, None, 0.0)
        if self.plan.corrected:
            scores = of.Scores(own, self.direction, self.shift_cut)
            most = most + float(np.linalg.norm(self.direction)) * self.most_shift
        cut, kept = most, 1.0
        if not self.kind.per_unit:
            tail = yield from self.tail("score-sizes", most, partial(scores.sizes, most))
            cut = min(most, tail.best(self.noise("meat") * self.root, square=True)[0])
            # What is cut off squares is missing from every direction alike, as far as anyone knows.
            kept = max(1.0 - tail.at(cut).lost_squares / (tail.square * tail.records), _LEAST_KEPT)
        meat, noise = yield from self.ask(of.Meat("meat", cut**2, scores))
        meat, noise = meat / kept, noise / kept
        half, less = power(slopes, 0.5), power(slopes, -0.5)
        own_noise, turned = noise * float(np.mean(np.diag(less @ less))), less @ meat @ less
        # Squares of scores are like slopes up to a factor, which the model knows unless a unit has several records.
        # Then it is between 1 / m of that, for unlike ones, and all of it, which is taken where noise hides it.
        expected, error = self.expected_factor(known)
        least = max(expected - error, 0.1 * expected)
        seen = float(np.mean(np.diag(turned)[self.outputs :]))
        precision, prior = len(turned) / own_noise**2, 1.0 / error**2
        factor = max((precision * seen + prior * expected) / (precision + prior), least)
        floor = 0.3 if self.declaration.grouped else 0.5
        inner = shrunk(turned, own_noise, (0.2, 0.07), (0.2, 0.07), floor, np.eye(len(meat)), self.outputs, factor)[0]
        extra = np.zeros_like(slopes)
        if self.plan.corrected or self.kind.start == "counts":
            direction = self.direction if self.plan.corrected else slopes[:, 0]
            extra = self.error**2 * np.outer(direction, direction) + self.stray**2 * slopes @ slopes
        return half @ inner @ half / self.n, extra

    def expected_factor(self, known: Known) -> tuple[float, float]:
        """Squares of scores over slopes, as the model has it; and how far that may be off."""
        at, most = known.own.at, self.declaration.most_records
        slopes = known.rows.slopes(known.at)
        model = float(np.trace(known.rows.counted(known.at).slopes(known.at)) / np.trace(slopes))
        if self.kind.per_unit:
            return 1.0 / most, _MODEL_ERROR / most
        if self.kind.start == "number":
            unit, cut = (at.scale, at.cut) if self.plan.corrected else (1.0, at.cut * at.scale)
            there = self.errors.at(cut)
            square, inside = self.errors.square - there.lost_squares / self.n, 1.0 - there.above / self.n
            model = unit**2 * max(square, 0.01 * cut**2) / max(inside, 0.2)
        apart = 0.5 * (1.0 - 1.0 / most) if self.declaration.grouped else 0.0
        return model, model * (_MODEL_ERROR + apart)

    def residual_scale(self, at: At) -> tuple[float, float]:
        """The standard deviation of errors with its relative error."""
        if self.kind.start != "number":
            return 0.0, 0.0
        # Between the scale that the median of sizes says and the one that nine tenths of them say, for normal errors:
        # mean squares would depend on a tail that noise hides.
        unit = at.scale if self.plan.corrected else 1.0
        scale = unit * math.sqrt(self.errors.quantile(0.5) / _MEDIAN * self.errors.quantile(0.9) / _NINE_TENTHS)
        return max(scale, 1e-9), math.sqrt(1.0 / self.n + self.errors.scale_error**2)


def settled(effects: Effects, known: Known, inverse: Array) -> tuple[Array, Array]:
    """Where gradient and prior balance, with the prior's factors at their posterior mean; and these factors.

    `inverse` is that of the gradient's covariance.
    """
    at, slopes, gradient = known.at, known.slopes, known.gradient + known.slopes @ known.away
    t, factors = at.copy(), np.ones(len(effects.whitening))
    for turn in range(12):
        prior = effects.precision(factors)
        way, turned = known.rows.moved(at, t)
        own = slopes @ turned
        covariance = inverse_of(own.T @ inverse @ own + prior)
        d = covariance @ (own.T @ inverse @ (gradient - slopes @ way) - prior @ (t - effects.middle))
        # Damped in the end: the curve may have no root where noise has thrown the gradient out of its range.
        t = t + d * min(1.0, 0.7 / max(float(np.linalg.norm(d)), 1e-12)) * (1.0 if turn < 5 else 0.6)
        t = at + (t - at) * min(1.0, _LONGEST_STEP / max(float(np.linalg.norm(t - at)), 1e-12))
        factors = effects.likely_factors(t, covariance)
    return t, factors
