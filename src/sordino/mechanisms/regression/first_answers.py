"""The first statistics of a fit: location and scale of the target, centre, scatter and lengths of rows.

Each `yield` is a statistic, and what comes back is its noised answer.
"""

import math
from collections.abc import Callable, Generator
from functools import partial

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.mechanisms.regression import statistics as of
from sordino.mechanisms.regression.families import At, helmert
from sordino.mechanisms.regression.noised import Tail, on_and_off, power, shrunk
from sordino.mechanisms.regression.plan import Plan
from sordino.mechanisms.regression.prior import ModelRows
from sordino.mechanisms.regression.rows import Frame, UnitRows, weigh
from sordino.mechanisms.regression.survival import FOLLOW, LEAST_FOLLOW, MOST_FOLLOW
from sordino.noise.port import HAIR, Statistic, factor

Read = Generator[Statistic, Array, None]

# Variance that a column's centre has before it is read, in encoded units: a third for a uniform law on its box.
_CENTRE_VARIANCE = 0.3
_SQUARES_SPREAD = 0.3  # mean squares of columns differ by a factor of a third at least, as far as anyone knows before
_COUNT_CUT = 3.0  # counts before the last point are cut at three standard deviations, which the law corrects for
# Rows count up to the length at which slopes are known to this share: 6 % widen intervals by less than 1 %.
_SLOPES_KNOWN = 0.06
_LONGEST_SHARE = 0.002  # the longest two thousandths of rows do not decide how long rows may be
_LEAST_TAU = 1.05  # weights never begin below the length of a typical row, sqrt(p)
_LEAST_CLASS = 0.005  # shares of classes are kept this far from 0 and 1 at the first point
_SCATTER_FLOOR, _AGAIN_FLOOR = 1e-9, 0.02  # floors of matrices of columns, relative to what they are drawn to


class FirstAnswers:
    """Public numbers of a fit, and how it asks; then target, columns and lengths in this order."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.kind, self.declaration = plan, plan.kind, plan.declaration
        self.n, self.tuned = float(plan.records), plan.tuned
        self.two, self.root = (factor(shape, plan.relation) for shape in ("vector", "matrix"))
        self.outputs, self.columns = plan.outputs, plan.declaration.columns
        # How far an encoded row can be from a centre in its box.
        self.reach = np.ones(self.columns)
        self.reach[self.declaration.numbers] = 2.0
        self.first, self.reach_of_psi, self.share, self.moved = At(), self.kind.reach, 1.0, (0.0, 0.0)

    def noise(self, name: str) -> float:
        """The noise multiplier of a statistic."""
        return self.plan.multipliers[name] * HAIR

    def ask(self, statistic: Statistic) -> Generator[Statistic, Array, tuple[Array, float]]:
        """The answer and the standard deviation of its noise, both for the mean over records."""
        answer = yield statistic
        deviation = self.noise(statistic.name) * statistic.sensitivity(self.plan.relation)
        return statistic.read(answer) / self.n, deviation / self.n

    def tail(self, name: str, most: float, sizes: Callable[[UnitRows], Array]) -> Generator[Statistic, Array, Tail]:
        counts, noise = yield from self.ask(of.Histogram(name, 1.0, most, sizes))
        return Tail(counts * self.n, most, noise * self.n, self.n)

    def read_target(self) -> Read:
        """The first point: intercepts that give the mean of the target."""
        start, declared = self.kind.start, self.declaration
        if start == "class":
            mean, _ = yield from self.ask(of.TargetMean("target-mean", 1.0, 0.5, 0.5))
            share = float(np.clip(0.5 + 0.5 * mean[0], _LEAST_CLASS, 1.0 - _LEAST_CLASS))
            self.middle, slope = np.array([special.logit(share)]), share * (1.0 - share)
            # psi is half of what it would be at most, and its deviation less than that.
            self.reach_of_psi, self.share = 0.7 / math.sqrt(max(slope, 0.01)), 4.0 * slope
        elif start == "classes":
            counts, _ = yield from self.ask(of.ClassCounts("class-counts", 1.0, self.outputs + 1))
            shares = np.maximum(counts, _LEAST_CLASS)
            shares /= shares.sum()
            basis = helmert(len(shares))
            self.middle = basis.T @ np.log(shares)
            slope = float(np.mean(np.diag(basis.T @ (np.diag(shares) - np.outer(shares, shares)) @ basis)))
            self.reach_of_psi, self.share = 1.0 / math.sqrt(max(slope, 0.01)), min(1.0, 2.0 * slope)
        elif start == "number":
            tail = yield from self.tail("target-sizes", 1.0, of.target_sizes)
            cut, _ = tail.best(self.noise("target-mean") * self.two)
            mean, _ = yield from self.ask(of.TargetMean("target-mean", 1.0, 0.0, cut))
            self.middle = np.clip(cut * mean, -1.0, 1.0)
        else:
            yield from self.read_rate(1.0 if declared.exposure is None else declared.exposure[1])

    def read_rate(self, longest: float) -> Read:
        """The first point of counts and events: the logarithm of their rate."""
        cut, name = 1.0, "counts-and-exposure"
        if self.kind.start == "counts":
            top = (self.declaration.target or (0.0, 1.0))[1]
            tail = yield from self.tail("target-sizes", top, of.target_sizes)
            cut, _ = tail.best(self.noise(name) * self.root * math.sqrt(2.0))
            self.first = At(largest=2.0 * top, cut=_COUNT_CUT)
        both, noise = yield from self.ask(of.CountsAndExposure(name, math.sqrt(2.0), cut, longest))
        count, exposure = float(cut * max(both[0], 0.5 * noise, 1e-3 / cut)), longest * max(both[1], 1e-3)
        self.middle = np.array([np.clip(math.log(count / exposure), -20.0, 20.0)])
        if self.kind.start == "counts":
            self.first = self.first._replace(typical=count)
            return
        # A unit's mean of events over its rows, times its rows.
        events = count * self.declaration.most_records
        follow = float(np.clip(FOLLOW * events, LEAST_FOLLOW, MOST_FOLLOW))
        self.first, self.share = At(follow=follow), min(1.0, events / follow)
        self.reach_of_psi = (1.0 + follow) / math.sqrt(max(events, 0.01))

    def read_columns(self) -> Read:
        """Where rows are centred, and the matrix that whitens them."""
        declared, columns = self.declaration, self.columns
        shifted, noise = yield from self.ask(of.Centre.declared(declared, self.plan.relation))
        low = np.where(np.array(declared.kinds) == "number", -1.0, 0.0)
        shrink, middle = _CENTRE_VARIANCE / (_CENTRE_VARIANCE + noise**2), (low + 1.0) / 2.0
        centre = middle + shrink * (np.clip(declared.shifts + shifted, low, 1.0) - middle)
        self.least_share = min(0.5, max(noise, 1.0 / self.n))
        most, ones = float(np.linalg.norm(self.reach**2)), np.ones(columns)
        tail = yield from self.tail("square-sizes", most, partial(of.column_sizes, centre, ones, 2))
        cut, _ = tail.best(self.noise("squares") * self.root)
        squares, noise = yield from self.ask(of.Squares("squares", 1.0, centre, ones, cut))
        squares, error = cut * squares, cut * noise
        mean = max(float(squares.mean()), error, 1e-6)
        spread = max(float(np.mean((squares - mean) ** 2)) - error**2, (_SQUARES_SPREAD * mean) ** 2)
        least, kept = min(0.1 * mean, 0.5 * error) + 1e-6, spread / (spread + error**2)
        squares = np.maximum(mean + kept * (squares - mean), least)
        scales = np.sqrt(squares)
        most = float(np.linalg.norm(self.reach / scales))
        tail = yield from self.tail("row-sizes", most, partial(of.column_sizes, centre, scales, 1))
        cut, _ = tail.best(self.noise("scatter") * self.root, square=True)
        scatter, noise = yield from self.ask(of.Scatter("scatter", cut**2, centre, scales))
        bordered = np.eye(columns + 1)
        bordered[1:, 1:] = scatter
        # Before it is read, squares are off by what their noise leaves open, and of all matrices of correlations none
        # is likelier than another, which gives each entry the variance 1 / (columns + 1).
        near, left_open = self.tuned.near, math.sqrt(kept * float(np.mean((error / squares) ** 2)))
        far = math.hypot(near[0], left_open), (columns + 1) ** -0.5
        found = shrunk(bordered, noise, near, far, _SCATTER_FLOOR, np.eye(columns + 1))
        inner, left = (one[1:, 1:] for one in found)
        values, vectors = np.linalg.eigh(inner)
        root = (vectors / np.sqrt(np.maximum(values, 0.5 * noise + 1e-9))) @ vectors.T
        self.frame = Frame(centre, root / scales[:, None])
        self.leave_open(root**2 @ left @ root**2)
        if self.tuned.again:
            yield from self.whiten_again()

    def leave_open(self, left: Array) -> None:
        """Slopes may lie as far from what public rows say as second moments of whitened rows are open."""
        on, off = (
            math.hypot(near, math.sqrt(one)) for near, one in zip(self.tuned.near, on_and_off(left), strict=True)
        )
        self.far_slopes = on, off

    def lengths(self, name: str) -> Generator[Statistic, Array, Tail]:
        """The lengths of whitened rows, of which none in the box is longer than the last bin."""
        norm = float(np.linalg.norm(self.frame.whitening, 2))
        most = math.sqrt(1.0 + norm * norm * float(np.sum(self.reach**2)))
        return (yield from self.tail(name, most, partial(of.whitened_lengths, self.frame)))

    def whiten_again(self) -> Read:
        """Second moments of whitened rows: what is left of their mean and correlation is removed."""
        size, (centre, whitening) = self.columns + 1, (self.frame.centre, self.frame.whitening)
        tail = yield from self.lengths("lengths 1")
        # What is cut here is no bias of any estimate, only rows that are whitened a little less.
        least = 1.1 * math.sqrt(size)
        cut, _ = tail.best(self.noise("again") * self.root, square=True, weight=0.5, least=least)
        moments, noise = yield from self.ask(of.Again("again", cut**2, self.frame))
        moments, left = shrunk(moments, noise, self.tuned.near, self.far_slopes, _AGAIN_FLOOR, np.eye(size))
        self.leave_open(left[1:, 1:])
        mean = moments[0, 1:] / moments[0, 0]
        inner = moments[1:, 1:] / moments[0, 0] - np.outer(mean, mean) + 1e-3 * np.eye(size - 1)
        inner = inner + max(0.0, 1e-3 - float(np.linalg.eigvalsh(inner)[0])) * np.eye(size - 1)
        moved = np.clip(centre + mean @ np.linalg.pinv(whitening), centre - self.reach, centre + self.reach)
        self.frame = Frame(moved, whitening @ power(inner, -0.5))

    def read_lengths(self) -> Read:
        """tau and far, with sampling, noise and the slopes' noise in mind."""
        size, n, tuned, rounds = self.columns + 1, self.n, self.tuned, self.plan.rounds
        tail = yield from self.lengths("lengths 2")
        gradients = tuned.gradient + 0.5 * sum(gradient for gradient, _ in tuned.rounds)
        noise = self.noise(f"gradient {rounds}") * self.two * math.sqrt(tuned.gradient / gradients) * self.reach_of_psi
        of_slopes = self.noise(f"slopes {rounds}") * self.root
        self.top = tail.beyond(_LONGEST_SHARE)
        # For each cut as tau, the length up to which slopes stay known.
        far = np.minimum(self.top, _SLOPES_KNOWN * 0.8 * self.share * n / (of_slopes * tail.cuts))
        far = np.maximum(tail.cuts, far)
        weights = weigh(tail.middles[None], tail.cuts[:, None], far[:, None])
        mass = tail.inside * tail.middles**2 / (n * size)
        cost = (weights**2 @ mass / n + (noise * tail.cuts / n) ** 2) / np.maximum(weights @ mass, 1e-12) ** 2
        place = tail.least(cost, min(_LEAST_TAU * math.sqrt(size), float(tail.cuts[-1])))
        self.tau, self.far = float(tail.cuts[place]), float(far[place])
        self.rows = ModelRows(self.kind, self.frame, tail, (self.tau, self.far), self.least_share)
