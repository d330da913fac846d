"""`sordino.plan`: what to expect of a fit before anything is spent, from a schema and declared numbers alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sordino.core.bound import Relation
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, one_of, refuse, whole_number
from sordino.data import Schema, read_schema
from sordino.fitting.declaration import declared_columns
from sordino.fitting.methods import METHODS
from sordino.fitting.methods.bounded_influence import influence_plan, public_columns
from sordino.fitting.problem import FitProblem
from sordino.fitting.tasks import OVERDISPERSED, TASKS, Task, count_settings, effect_settings, survival_settings
from sordino.inference.contrasts import LEVEL
from sordino.inference.expectation import Expectation

FAMILIES = ("linear", "robust", "logistic", "multinomial", "poisson", OVERDISPERSED, "cox")


def plan(
    family: str,
    schema: Schema | str | Path,
    *,
    epsilon: float,
    delta: float,
    relation: str,
    records: int | None = None,
    level: float = LEVEL,
    effect_scale: float | None = None,
    exposure: str | None = None,
    time: str | None = None,
    bins: int | Sequence[float] | None = None,
) -> Expectation:
    """What a private regression by bounded influence would give, before anything is spent: no row is read.

    Args:
        family: "linear", "robust", "logistic", "multinomial" (logistic with several classes), "poisson",
            "negative-binomial" (counts that vary more than a Poisson law), or "cox" (times to an event).
        schema: the public schema, or the path of one.
        epsilon: of the fit.
        delta: of the fit.
        relation: "replace-one" or "add-remove"; there is no default.
        records: how many records or units there are; None takes the schema's number.
        level: of intervals and tests.
        effect_scale: how large effects are taken to be before the data speak, as for a fit; None takes its default.
        exposure: of counts, the declared column that says how long each record was watched.
        time: of cox, the declared column of times; the target says whether the event happened then.
        bins: of cox, as for a fit: how many time bins there are, or their edges; None takes 4.

    Returns:
        An `Expectation`: print it for a table of standard errors and widths; `lines`, `at(epsilon)`, `curve`,
        `epsilon_for_width`, `refused` and `epsilon_needed` for more.

    Raises:
        InputError: for a family that does not fit the schema's target, or numbers out of range.

    Examples:
        >>> import sordino
        >>> schema = sordino.ArrayBounds(-1, 1, target=(-1, 1)).schema(3, 5000, None)
        >>> made = sordino.plan("linear", schema, epsilon=1.0, delta=1e-6, relation="replace-one")
        >>> made.refused, [line.name for line in made.lines][:2]
        (False, ['x0', 'x1'])
        >>> bool(made.lines[0].width > made.at(4.0).lines[0].width)
        True
    """
    task = TASKS.get(one_of("family", family, FAMILIES), Task.CLASSIFICATION)
    read = read_schema(schema) if isinstance(schema, str | Path) else schema
    if not isinstance(read, Schema):
        raise refuse("schema", "to be a Schema or the path of one", schema)
    if records is not None:
        read = replace(read, records=whole_number("records", records))
    if exposure is not None and task is not Task.COUNTS:
        raise refuse("exposure", "for poisson and negative-binomial only", exposure)
    if not time is bins is None and task is not Task.SURVIVAL:
        raise refuse("time and bins", "for cox only", family)
    declared = declared_columns(read, task)
    settings = effect_settings(effect_scale)
    if task is Task.COUNTS:
        settings = count_settings(exposure, family == OVERDISPERSED, effect_scale)
    if task is Task.SURVIVAL:
        settings = survival_settings(effect_scale, time=time, **({} if bins is None else {"bins": bins}))
    problem = FitProblem(
        task,
        declared.schema,
        None if declared.labels is None else len(declared.labels),
        number("epsilon", epsilon, POSITIVE),
        number("delta", delta, OPEN_UNIT),
        Relation(one_of("relation", relation, tuple(Relation))),
        settings,
        declared.labels,
    )
    reason = METHODS["bounded-influence"].refusal(problem)
    if reason is not None:
        raise InputError(f"Expected a schema that bounded influence can fit, got one that it cannot: it {reason}.")
    columns = public_columns(problem)
    words = tuple(str(label) for label in (declared.labels or ())[1:])
    return Expectation(influence_plan(problem, columns), columns, words, number("level", level, OPEN_UNIT))
