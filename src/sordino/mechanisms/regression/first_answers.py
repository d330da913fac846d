"""What a fit reads before its first point: the place of the target, where rows lie, and how long they are.

Each `yield` is a statistic, and what comes back is its noised answer.
"""

import math
from collections.abc import Generator

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.mechanisms.regression import statistics as of
from sordino.mechanisms.regression.families import At, helmert
from sordino.mechanisms.regression.matrices import power, shrunk
from sordino.mechanisms.regression.plan import Plan
from sordino.mechanisms.regression.prior import ModelRows
from sordino.mechanisms.regression.statistics import Frame
from sordino.mechanisms.regression.survival import FOLLOW, LEAST_FOLLOW, MOST_FOLLOW
from sordino.mechanisms.regression.tails import Tail
from sordino.noise.port import HAIR, Statistic

Answer = Generator[Statistic, Array, tuple[Array, float]]

# Variance that a column's centre has before it is read, in encoded units: a third for a uniform law on its box.
_CENTRE_VARIANCE = 0.3
# Mean squares of columns differ by a factor of a third at least, as far as anyone knows before.
_SQUARES_SPREAD = 0.3
# Counts before the last point are cut at three standard deviations, which the law corrects for.
_COUNT_CUT = 3.0
# Rows count up to the length at which slopes are known to this share: 6 % widen intervals by less than 1 %.
_SLOPES_KNOWN = 0.06
# The longest two thousandths of rows do not decide how long rows may be.
_LONGEST_SHARE = 0.002
# Weights never begin below the length of a typical row, sqrt(p).
_LEAST_TAU = 1.05
# Shares of classes are kept this far from 0 and 1 at the first point.
_LEAST_CLASS = 0.005
# Floors of matrices of columns, relative to what they are drawn to.
_SCATTER_FLOOR, _AGAIN_FLOOR = 1e-9, 0.02


class FirstAnswers:
    """Public numbers of a fit, and how it asks; then target, columns and lengths in this order."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.kind, self.declaration = plan, plan.kind, plan.declaration
        self.n, self.tuned = float(plan.records), plan.tuned
        replaced = plan.relation is Relation.REPLACE_ONE
        self.two, self.root = (2.0, math.sqrt(2.0)) if replaced else (1.0, 1.0)
        self.outputs, self.columns = plan.outputs, plan.declaration.columns
        # How far an encoded row can be from a centre in its box.
        reach = np.full(self.columns, 2.0)
        for places in self.declaration.sets:
            reach[places] = 1.0
        self.reach = reach
        self.scale = self.kind.effect_scale(self.declaration)
        self.moved = (0.0, 0.0)

    def noise(self, name: str) -> float:
        """The noise multiplier of a statistic."""
        return self.plan.multipliers[name] * HAIR

    def ask(self, statistic: Statistic) -> Answer:
        """The answer and the standard deviation of its noise, both for the mean over records."""
        answer = yield statistic
        deviation = self.noise(statistic.name) * statistic.sensitivity(self.plan.relation)
        return statistic.read(answer) / self.n, deviation / self.n

    def tail(self, statistic: Statistic, most: float) -> Generator[Statistic, Array, Tail]:
        """A histogram, read."""
        counts, noise = yield from self.ask(statistic)
        return Tail(counts * self.n, most, noise * self.n, self.n)

    def read_target(self) -> Generator[Statistic, Array, None]:
        """The first point: intercepts that give the mean of the target."""
        kind, declared = self.kind, self.declaration
        self.first, self.reach_of_psi, self.share = At(), kind.reach, 1.0
        if kind.start == "class":
            mean, _ = yield from self.ask(of.TargetMean("target-mean", 1.0, 0.5, 0.5))
            share = float(np.clip(0.5 + 0.5 * mean[0], _LEAST_CLASS, 1.0 - _LEAST_CLASS))
            self.middle = np.array([special.logit(share)])
            self.reach_of_psi, self.share = (
                1.0 / math.sqrt(max(share * (1.0 - share), 0.01)),
                4.0 * share * (1.0 - share),
            )
            self.first = At(level=(float(self.middle[0]),))
        elif kind.start == "classes":
            classes = declared.classes or 2
            counts, _ = yield from self.ask(of.ClassCounts("class-counts", 1.0, classes))
            shares = np.maximum(counts, _LEAST_CLASS)
            shares /= shares.sum()
            basis = helmert(classes)
            self.middle = basis.T @ np.log(shares)
            slope = float(np.mean(np.diag(basis.T @ (np.diag(shares) - np.outer(shares, shares)) @ basis)))
            self.reach_of_psi, self.share = 1.0 / math.sqrt(max(slope, 0.01)), min(1.0, 2.0 * slope)
        elif kind.start == "number":
            tail = yield from self.tail(of.TargetSizes("target-sizes", 1.0, 0.0, 1.0), 1.0)
            cut, _ = tail.best(self.noise("target-mean") * self.two)
            mean, _ = yield from self.ask(of.TargetMean("target-mean", 1.0, 0.0, cut))
            self.middle = np.clip(cut * mean, -1.0, 1.0)
        else:
            cut, longest = 1.0, 1.0 if declared.exposure is None else declared.exposure[1]
            if kind.start == "counts":
                top = (declared.target or (0.0, 1.0))[1]
                tail = yield from self.tail(of.TargetSizes("target-sizes", 1.0, 0.0, top), top)
                cut, _ = tail.best(self.noise("counts-and-exposure") * self.root * math.sqrt(2.0))
                self.first = At(largest=2.0 * top, cut=_COUNT_CUT)
            name = "counts-and-exposure"
            both, noise = yield from self.ask(of.CountsAndExposure(name, math.sqrt(2.0), cut, longest))
            count, exposure = cut * max(both[0], 0.5 * noise, 1e-3 / cut), longest * max(both[1], 1e-3)
            self.middle = np.array([np.clip(math.log(count / exposure), -20.0, 20.0)])
            if kind.start == "counts":
                self.first = self.first._replace(typical=float(count))
            else:
                # A unit's mean of events over its rows, times its rows.
                events = float(count) * declared.most_records
                follow = float(np.clip(FOLLOW * events, LEAST_FOLLOW, MOST_FOLLOW))
                self.first = At(follow=follow)
                self.reach_of_psi, self.share = (1.0 + follow) / math.sqrt(max(events, 0.01)), min(1.0, events / follow)

    def read_columns(self) -> Generator[Statistic, Array, None]:
        """Where rows are centred, and the matrix that whitens them."""
        declared, columns, tuned = self.declaration, self.columns, self.tuned
        shifted, noise = yield from self.ask(of.Centre.declared(declared, self.plan.relation))
        low, high = np.full(columns, -1.0), np.ones(columns)
        for places in declared.sets:
            low[places] = 0.0
        shrink = _CENTRE_VARIANCE / (_CENTRE_VARIANCE + noise**2)
        middle = (low + high) / 2.0
        centre = middle + shrink * (np.clip(declared.shifts + shifted, low, high) - middle)
        self.least_share = min(0.5, max(noise, 1.0 / self.n))
        ones = np.ones(columns)
        most = float(np.linalg.norm(self.reach**2))
        tail = yield from self.tail(of.ColumnSizes("square-sizes", 1.0, centre, ones, 2, most), most)
        cut, _ = tail.best(self.noise("squares") * self.root)
        squares, noise = yield from self.ask(of.Squares("squares", 1.0, centre, ones, cut))
        squares, noise = cut * squares, cut * noise
        mean = max(float(squares.mean()), noise, 1e-6)
        spread = max(float(np.mean((squares - mean) ** 2)) - noise**2, (_SQUARES_SPREAD * mean) ** 2)
        squares = np.maximum(
            mean + spread / (spread + noise**2) * (squares - mean), min(0.1 * mean, 0.5 * noise) + 1e-6
        )
        scales = np.sqrt(squares)
        most = float(np.linalg.norm(self.reach / scales))
        tail = yield from self.tail(of.ColumnSizes("row-sizes", 1.0, centre, scales, 1, most), most)
        cut, _ = tail.best(self.noise("scatter") * self.root, square=True)
        scatter, noise = yield from self.ask(of.Scatter("scatter", cut**2, cut, centre, scales))
        bordered = np.eye(columns + 1)
        bordered[1:, 1:] = scatter
        inner = shrunk(bordered, noise, tuned.near, _SCATTER_FLOOR, np.eye(columns + 1)).matrix[1:, 1:]
        values, vectors = np.linalg.eigh(inner)
        whitening = (vectors / np.sqrt(np.maximum(values, 0.5 * noise + 1e-9))) @ vectors.T / scales[:, None]
        if tuned.again:
            centre, whitening = yield from self.whiten_again(centre, whitening)
        self.frame = Frame(centre, whitening)

    def longest(self, whitening: Array) -> float:
        """No whitened row of the box is longer."""
        return math.sqrt(1.0 + float(np.linalg.norm(whitening, 2) ** 2 * np.sum(self.reach**2)))

    def whiten_again(self, centre: Array, whitening: Array) -> Generator[Statistic, Array, tuple[Array, Array]]:
        """Second moments of whitened rows: what is left of their mean and correlation is removed."""
        size, frame = self.columns + 1, Frame(centre, whitening)
        most = self.longest(whitening)
        tail = yield from self.tail(of.Lengths("lengths 1", 1.0, frame, most), most)
        # What is cut here is no bias of any estimate, only rows that are whitened a little less.
        least = 1.1 * math.sqrt(size)
        cut, _ = tail.best(self.noise("again") * self.root, square=True, weight=0.5, least=least)
        moments, noise = yield from self.ask(of.Again("again", cut**2, frame, cut))
        moments = shrunk(moments, noise, self.tuned.near, _AGAIN_FLOOR, np.eye(size)).matrix
        mean = moments[0, 1:] / moments[0, 0]
        inner = moments[1:, 1:] / moments[0, 0] - np.outer(mean, mean) + 1e-3 * np.eye(size - 1)
        values = np.linalg.eigvalsh(inner)
        inner = inner + max(0.0, 1e-3 - float(values[0])) * np.eye(size - 1)
        low, high = centre - self.reach, centre + self.reach
        moved_centre = np.clip(centre + mean @ np.linalg.pinv(whitening), low, high)
        return moved_centre, whitening @ power(inner, -0.5)

    def read_lengths(self) -> Generator[Statistic, Array, None]:
        """tau and far, with sampling, noise and the slopes' noise in mind."""
        size, n, tuned = self.columns + 1, self.n, self.tuned
        most = self.longest(self.frame.whitening)
        tail = yield from self.tail(of.Lengths("lengths 2", 1.0, self.frame, most), most)
        rounds = self.plan.rounds
        gradients = tuned.gradient + 0.5 * sum(gradient for gradient, _ in tuned.rounds)
        noise = self.noise(f"gradient {rounds}") * self.two * math.sqrt(tuned.gradient / gradients) * self.reach_of_psi
        of_slopes = self.noise(f"slopes {rounds}") * self.root
        top = tail.beyond(_LONGEST_SHARE)
        self.top = top

        def far(tau: Array) -> Array:
            return np.maximum(tau, np.minimum(top, _SLOPES_KNOWN * 0.8 * self.share * n / (of_slopes * tau)))

        weights = of.weigh(tail.middles[None], tail.cuts[:, None], far(tail.cuts)[:, None])
        mass = tail.inside * tail.middles**2 / (n * size)
        cost = (weights**2 @ mass / n + (noise * tail.cuts / n) ** 2) / np.maximum(weights @ mass, 1e-12) ** 2
        least = min(_LEAST_TAU * math.sqrt(size), float(tail.cuts[-1]))
        self.tau = float(tail.cuts[int(np.argmin(np.where(tail.cuts < least, np.inf, cost)))])
        self.far = float(far(np.array(self.tau)))
        reach = self.tau, self.far
        self.rows = ModelRows(self.kind.curve, self.declaration, self.frame, tail, reach, self.least_share)
