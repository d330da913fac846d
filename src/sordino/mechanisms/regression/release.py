"""Release the planned statistics of private rows: every answer comes through the noise port, nothing else leaves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.validate import instance_of, refuse
from sordino.mechanisms.regression.learn import Learned, Learner
from sordino.mechanisms.regression.plan import Plan, PlannedStatistic
from sordino.mechanisms.regression.rows import Given, InMemory
from sordino.noise.port import Statistic, Summed, SumNoise, check_capacity
from sordino.noise.randomness import Randomness

Total = Callable[[Statistic], Summed]


@dataclass(frozen=True, eq=False)
class Released:
    """The noised sums by the names of their mechanisms: all that a posterior is computed from, with the plan.

    `learned` is what a run has computed from them already; a release that was read from a file has none.
    """

    sums: dict[str, Array]
    learned: Learned | None = None


class Kept(Protocol):
    """Answers that were given before, and where new ones are kept before anybody sees them."""

    answered: dict[str, Array]

    def add(self, name: str, sums: Array) -> None: ...


def release(
    plan: Plan,
    X: ArrayLike,
    y: ArrayLike,
    randomness: Randomness,
    *,
    declared: int | None = None,
    **more: ArrayLike | None,
) -> Released:
    """The noised sums of a plan on private rows in the table's units; `more` are exposure, unit and weight of `Given`.

    With weights between 0 and 1 the plan's records are what these are taken to add up to, and `declared` is the public
    number of units under replace-one.
    """
    instance_of("plan", plan, Plan)
    given = Given(X, y, **more)
    return release_sums(plan, InMemory(plan, given), randomness, plan.records if given.weight is None else declared)


def release_sums(
    plan: Plan, total: Total, randomness: Randomness, units: int | None = None, kept: Kept | None = None
) -> Released:
    """Answer the plan's statistics, wherever the rows are: `total` adds up what each statistic asks of them.

    What is `kept` of an earlier run of this plan is not asked again. Under replace-one the number of units is public,
    and another one is refused before anything is answered. It is the plan's number of records, but where weights make
    the plan's a smaller one.
    """
    instance_of("plan", plan, Plan)
    instance_of("randomness", randomness, Randomness)
    wanted = plan.records if units is None else units
    check_capacity(max(plan.records, wanted) * plan.declaration.most_records)
    noise, found = SumNoise.of(randomness, plan.numbers), dict[str, Array]()

    def answer(statistic: Statistic, one: PlannedStatistic) -> Array:
        if kept is not None and one.name in kept.answered:
            noise.skip(one.numbers)
            return found.setdefault(one.name, kept.answered[one.name])
        summed = total(statistic)
        if plan.relation is Relation.REPLACE_ONE and summed.units != wanted:
            raise refuse("the number of units", f"to be {wanted} under replace-one", summed.units)
        # The port receives the bound where it follows from earlier answers; the spec states the others.
        found[one.name] = noise.statistic(statistic, summed, one.multiplier, plan.relation, later=one.bound is None)
        if kept is not None:
            kept.add(one.name, found[one.name])
        return found[one.name]

    return Released(found, learned(plan, answer))


def learned(plan: Plan, answer: Callable[[Statistic, PlannedStatistic], Array]) -> Learned:
    """What a fit learns from the answers to its statistics, which are those that were planned."""
    run = Learner(plan).learn()
    statistic = next(run)
    for place, one in enumerate(plan.mechanisms, 1):
        _check(statistic, one)
        try:
            statistic = run.send(answer(statistic, one))
        except StopIteration as done:
            if place == len(plan.mechanisms):
                return done.value
            break
    raise refuse("a fit", "to ask for exactly what was planned", "another number of statistics")


def _check(statistic: Statistic, planned: PlannedStatistic) -> None:
    """A statistic is the one that was planned and certified, or nothing is asked."""
    same = (statistic.name, statistic.shape, statistic.numbers) == (planned.name, planned.shape, planned.numbers)
    if not same or (planned.bound is not None and statistic.bound != planned.bound):
        raise AssertionError(f"planned {planned.name}, asked for {statistic.name}")
