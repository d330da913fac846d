"""Release the planned sums of private rows: every answer comes through the noise port, and nothing else leaves.

The order is public: centre, scales, scatter, the target's place, then gradients at points that are computed from what
was answered before, curvature and meat at the last point. Bounds of later sums depend on earlier answers only.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sordino.algorithm.influence import readings, whitening
from sordino.algorithm.influence.asked import Asked, Given, InMemory, Total
from sordino.algorithm.influence.evidence import NEARLY_SETTLED, Evidence, Round
from sordino.algorithm.influence.families import At
from sordino.algorithm.influence.likeness import Likeness, squares_of
from sordino.algorithm.influence.plan import HAIR, Plan
from sordino.algorithm.influence.sums import AXIS_DIGITS
from sordino.algorithm.noise.exact import ExactGaussians
from sordino.algorithm.noise.randomness import Randomness
from sordino.algorithm.noise.sums import noised_sums
from sordino.algorithm.noise.wide_sums import check_capacity
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.validate import instance_of, refuse


@dataclass(frozen=True, eq=False)
class Released:
    """The noised sums by the names of their mechanisms: all that a posterior is computed from, with the plan.

    `followed` is what a run has computed from them already; a release that was read from a file has none.
    """

    sums: dict[str, Array] = field(default_factory=dict)
    followed: "Followed | None" = None

    def __getitem__(self, name: str) -> Array:
        return self.sums[name]

    def __contains__(self, name: str) -> bool:
        return name in self.sums


class Followed:
    """What is known after each answer: a function of the plan and the released sums alone.

    A release asks it where to go next; a posterior replays it on the finished release. So both see the same points.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.named = {one.name: one for one in plan.mechanisms}
        self.at: At = plan.at_start
        self.scale_error = 0.0
        self.residual_readings: list[readings.Place] = []

    @property
    def residual_scale(self) -> tuple[float, float]:
        """The scale of errors and its relative error, from the later half of its readings: points are close by then."""
        late = self.residual_readings[len(self.residual_readings) // 2 :]
        if not late:
            return self.at.scale, self.scale_error
        weights = np.array([1.0 / max(one.error, 1e-6) ** 2 for one in late])
        logs = np.log([one.scale for one in late])
        return math.exp(float(weights @ logs / weights.sum())), 1.0 / math.sqrt(float(weights.sum()))

    def noise(self, name: str, bound: float | None = None) -> float:
        """The standard deviation of a mechanism's noise, on the diagonal where it is a matrix."""
        one = self.named[name]
        return one.multiplier * self.plan.sensitivity(one, bound) * HAIR

    def scales(self, name: str, bound: float | None = None) -> Array:
        """The deviation of every number: a matrix has 1 / sqrt(2) of it off the diagonal."""
        one, deviation = self.named[name], self.noise(name, bound)
        if one.shape != "psd" or one.numbers == self.plan.declaration.columns:
            return np.full(one.numbers, deviation)
        size = round((math.sqrt(8.0 * one.numbers + 1.0) - 1.0) / 2.0)
        rows, columns = np.triu_indices(size)
        return np.where(rows == columns, deviation, deviation / math.sqrt(2.0))

    def read_centre(self, sums: Array) -> None:
        """Where rows are centred."""
        units = self.plan.records
        self.centre = readings.read_centre(self.plan.declaration, sums / units, self.noise("centre") / units)
        self.spreads = readings.Spreads(self.centre.spread.copy(), self.centre.spread_error.copy(), 0.0)

    def read_scales(self, sums: Array) -> None:
        """How far numbers spread."""
        numbers = self.plan.declaration.numbers
        counts = sums.reshape(len(numbers), -1)
        found = readings.read_scales(counts, self.plan.records, self.noise("scales"))
        self.spreads.values[numbers], self.spreads.error[numbers] = found.values, found.error
        self.spreads = self.spreads._replace(common=found.common)

    def read_scatter(self, sums: Array) -> None:
        """How columns vary together; then rows are whitened."""
        plan, units = self.plan, self.plan.records
        base = whitening.stand_in_rows(plan.declaration, self.centre, readings.public_numbers(1))
        noise = self.noise("scatter") / units
        if plan.in_matrix:
            matrix = symmetric(sums / units)
            numbers = plan.declaration.numbers
            self.whitened = whitening.whiten(self.centre, self.spreads, numbers, matrix, noise, plan.rho, base)
        else:
            self.whitened = whitening.whiten_each(self.centre, self.spreads.values, sums / units, noise, plan.rho, base)
        self.evidence = Evidence(plan, self.centre, self.whitened)
        self.point = np.zeros(plan.coefficients)

    def read_target(self, name: str, sums: Array) -> None:
        """Where the target lies, or how large residuals are: the scale of the next round."""
        units, noise = self.plan.records, self.noise(name)
        if name == "location":
            place = readings.read_location(sums, units, noise)
            self.point[0] = place.location
            self.at = self.at._replace(scale=place.scale)
        elif name == "counts":
            target = self.plan.declaration.target
            most, exposure = 1.0 if target is None else target[1], float(self.evidence.exposure.mean())
            found = readings.read_counts(sums, units, noise, most, exposure)
            self.point[0] = self.evidence.prior.intercept_mean = math.log(found.rate)
            self.at = self.at._replace(scale=found.mean, middle=math.log(found.rate), dispersion=found.dispersion)
            place = readings.Place(0.0, found.mean, 0.0)
        elif self.plan.kind.reads == "counts":
            at = self.at
            scores = np.clip(self.evidence.scores(self.point), -at.cap + at.middle, at.cap + at.middle)
            means = readings.evenly(np.sort((self.evidence.exposure * np.exp(scores))[:, 0]))
            dispersion, error = readings.read_dispersion(sums, units, noise, means, at.dispersion)
            self.at = at._replace(dispersion=dispersion)
            place = readings.Place(0.0, at.scale, error)
        else:
            place = readings.read_residuals(sums, units, noise, self.at.scale)
            self.at = self.at._replace(scale=place.scale)
            self.residual_readings.append(place)
        self.scale_error = place.error

    @property
    def gradient_bound(self) -> float:
        """How long one unit's gradient can be in the next round."""
        return self.plan.tau * self.plan.kind.bound(self.plan.declaration, self.at)

    def read_gradient(self, name: str, sums: Array, *, last: bool) -> None:
        """A noised gradient at the current point; then the next point, the posterior mean."""
        units = self.plan.records
        noise = self.noise(name, self.gradient_bound) / units
        self.evidence.add(Round(self.point.copy(), sums / units, noise, self.at), self.scale_error)
        if not last:
            self.point = self.evidence.centre(NEARLY_SETTLED)[0]
            self.at = self.at._replace(first=False)

    @property
    def curvature_bound(self) -> float:
        """How large one unit's matrix of slopes can be."""
        return self.plan.tau**2 * self.plan.kind.slope_bound(self.plan.declaration, self.at)

    def read_curvature(self, sums: Array) -> None:
        """The noised matrix of slopes at the last point."""
        units = self.plan.records
        self.evidence.add_curvature(symmetric(sums / units), self.noise("curvature", self.curvature_bound) / units)

    def read_meat(self, sums: Array) -> None:
        """The noised matrix of squared gradients at the last point."""
        units = self.plan.records
        self.evidence.add_meat(symmetric(sums / units), self.noise("meat", self.gradient_bound**2) / units)

    def read_likeness(self, sums: Array) -> None:
        """How large units' gradients are at the last point, number by number."""
        counts = sums.reshape(self.plan.coefficients, -1)
        likely = squares_of(counts, self.plan.records, self.noise("likeness"))
        self.evidence.likeness = Likeness(likely, self.axes, self.gradient_bound, self.plan.declaration.most_records)

    @cached_property
    def axes(self) -> Array:
        """Along which sizes of units' gradients are counted: by what a gradient moves each coefficient."""
        found = self.evidence.axes()
        return np.asarray(np.ldexp(np.trunc(np.ldexp(found, AXIS_DIGITS)), -AXIS_DIGITS), np.float64)

    def follow(self, released: Released) -> "Evidence":
        """Everything that was released, in order."""
        last = f"gradients {len(self.plan.shares.gradients)}"
        for one in self.plan.mechanisms:
            self.read(one.name, released[one.name], last=one.name == last)
        return self.evidence

    def asked(self, name: str) -> tuple[Asked, float | None]:
        """The next question in public numbers, and the bound on contributions where it is not in the plan."""
        plan, named = self.plan, self.named[name]
        question = Asked(
            name, named.numbers, plan.family, plan.declaration, plan.tau, plan.rho, plan.in_matrix, self.at
        )
        if name == "centre":
            return question, None
        question = replace(question, centre=self.centre.values)
        if name in ("scales", "scatter"):
            return replace(question, spread=self.spreads.values), None
        question = replace(question, whitening=self.whitened.matrix, point=self.point.copy())
        if name == "curvature":
            return question, self.curvature_bound
        if name == "meat":
            return question, self.gradient_bound**2
        if name == "likeness":
            return replace(question, axes=self.axes), None
        return question, self.gradient_bound if name.startswith("gradients") else None

    def read(self, name: str, sums: Array, *, last: bool = False) -> None:
        """One answer."""
        if name.startswith("gradients"):
            self.read_gradient(name, sums, last=last)
        elif name in ("location", "counts") or name.startswith("residuals"):
            self.read_target(name, sums)
        else:
            getattr(self, f"read_{name}")(sums)


def symmetric(upper: Array) -> Array:
    """A symmetric matrix from its upper triangle."""
    size = round((math.sqrt(8.0 * len(upper) + 1.0) - 1.0) / 2.0)
    found = np.zeros((size, size))
    found[np.triu_indices(size)] = upper
    return found + np.triu(found, 1).T


def release(
    plan: Plan,
    X: Any,
    y: Any,
    randomness: Randomness,
    *,
    exposure: Any = None,
    unit: Any = None,
    weight: Any = None,
    declared: int | None = None,
) -> Released:
    """Answer the plan's sums on private rows.

    Args:
        plan: what to release.
        X: rows in the table's units, columns as declared.
        y: targets: numbers, 0/1, classes 0, 1, ..., or counts.
        randomness: of the noise; its port sees every call.
        exposure: for counts, how long each row was watched; 1 if absent.
        unit: for a declaration with units, which unit each row belongs to.
        weight: how much each row counts, between 0 and 1; the plan's records are then what these are taken to add up
            to. None: every row counts as 1.
        declared: with weights, the public number of units under replace-one.

    Returns:
        The noised sums. They are all that leaves.
    """
    instance_of("plan", plan, Plan)
    units = plan.records if weight is None else declared
    return release_sums(plan, InMemory(plan, Given(X, y, exposure, unit, weight)), randomness, units)


class Kept(Protocol):
    """Answers that were given before, and where new ones are kept before anybody sees them."""

    answered: dict[str, Array]

    def add(self, name: str, sums: Array) -> None: ...


def release_sums(
    plan: Plan, total: Total, randomness: Randomness, units: int | None = None, kept: Kept | None = None
) -> Released:
    """Answer the plan's sums, wherever the rows are: `total` adds up what each question asks of them.

    What is `kept` of an earlier run of this plan is not asked again.

    Under replace-one the number of units is public, and another one is refused before anything is answered. It is the
    plan's number of records, but where weights make the plan's a smaller one.
    """
    instance_of("plan", plan, Plan)
    instance_of("randomness", randomness, Randomness)
    wanted = plan.records if units is None else units
    check_capacity(max(plan.records, wanted) * plan.declaration.most_records)
    noise, used = ExactGaussians.of(randomness, plan.numbers), 0
    followed, last = Followed(plan), f"gradients {len(plan.shares.gradients)}"
    found: dict[str, Array] = {}
    for one in plan.mechanisms:
        asked, bound = followed.asked(one.name)
        if kept is not None and one.name in kept.answered:
            found[one.name] = kept.answered[one.name]
            used += one.numbers
            followed.read(one.name, found[one.name], last=one.name == last)
            continue
        scales, part = followed.scales(one.name, bound), slice(used, used + one.numbers)
        used = part.stop
        summed = total(asked)
        if plan.relation is Relation.REPLACE_ONE and summed.units != wanted:
            raise refuse("the number of units", f"to be {wanted} under replace-one", summed.units)
        found[one.name] = noised_sums(summed.sums.integers(), summed.exponent, scales, noise, part, bound)
        if kept is not None:
            kept.add(one.name, found[one.name])
        followed.read(one.name, found[one.name], last=one.name == last)
    return Released(found, followed)
