"""A certified choice among models: fit and score candidates drawn at random, and release only the best.

Only the trial with the least noised loss is released. That it costs little more than one trial is `selection.repeated`
(Papernot & Steinke 2022), which needs a random and secret number of trials; here it is geometric. Every sum of a trial
is a Gaussian mechanism, chosen in view of earlier ones, and those of the fit and the score add up to at most the same
mu whichever candidate was drawn, which looks at no row: a trial is one Gaussian mechanism of mu, as the spec says.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from sordino.accounting.evaluate import Explanation, explain
from sordino.core.bound import Relation, RelationWord, View
from sordino.core.gaussian import largest_mu, narrow, up
from sordino.core.spec import Composite, ConstantSchedule, NoisedSums, RepeatAndSelect, Scheme, Spec
from sordino.core.spec.document import NegativeBinomialTrials, Part
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, number, one_of, shown_names, whole_number
from sordino.data import Schema, read_schema, read_table, with_formula
from sordino.data.columns.base import repeats
from sordino.explore.scoring import SCORED, ScoreNoise, cube_lengths, losses, read_rows, totals
from sordino.fitting.charge import RowAccess, RunContents, charged_run, check_public
from sordino.fitting.fit import fit_contents
from sordino.fitting.methods.base import METHODS, FitPlan, full_sums
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import FitDeclaration, FitProblem, Sources, declared
from sordino.fitting.tasks.base import MODELS, Task
from sordino.ledger.release import StoredRelease
from sordino.noise.randomness import Purpose, Randomness

METHOD = "bounded-influence"
_COIN = 2**30  # a coin is a whole number of this many parts, so that its probability is exact
_MOST_CANDIDATES, _MOST_TRIALS = Interval(2, 50), Interval(2.0, 500.0)
FIT_SHARE = 0.8  # a fit's share of what a trial may spend, in squares of mu; the rest is for its score
CHOSEN = "chosen"
_LOSS = cube_lengths(1)
PER_CANDIDATE = 8.0  # trials that are expected for each candidate: one of two is then never drawn in 6 % of choices


@dataclass(frozen=True)
class Candidate:
    """One of the models that are chosen from.

    Attributes:
        name: of the candidate.
        formula: which columns it takes; None for all that the schema declares.
        settings: of the model, such as {"effect_scale": 0.5}.

    Examples:
        >>> from sordino.explore import Candidate
        >>> Candidate("small effects", "ill ~ age", {"effect_scale": 0.5}).name
        'small effects'
    """

    name: str
    formula: str | None = None
    settings: Mapping[str, object] | None = None


def choice_caution(candidates: int) -> str:
    """What a reader of a fit that was chosen from so many must know first."""
    return f"Chosen from {candidates} candidates by their loss on the same rows: intervals do not count the choice."


class Choice(NamedTuple):
    """A finished choice.

    Attributes:
        name: of the candidate that was chosen.
        loss: its noised mean loss.
        release: its fit, charged with all trials; `write_release` stores it.
    """

    name: str
    loss: float
    release: StoredRelease

    def __str__(self) -> str:
        return f"chosen: {self.name}, noised mean loss {self.loss:.4g}"


Output = TypeVar("Output")


class SelectionTrial(NamedTuple, Generic[Output]):
    """What one trial would release, ordered by its noised loss; a key in the release decides ties."""

    loss: float
    key: tuple[Any, ...]
    output: Output


def best_of_trials(
    trial: Callable[[int], SelectionTrial[Output]], candidates: int, stop: float, coins: Randomness
) -> SelectionTrial[Output]:
    """Trials of candidates drawn evenly, until a coin of probability `stop` says so; the one with the least loss.

    The number of trials is geometric, whatever the trials answer: the coin is tossed after each one and looks at
    nothing. Candidates and coins are whole numbers drawn without bias.
    """
    generator, parts = coins.generator(Purpose.BATCHES), coin_parts(stop)
    best: SelectionTrial[Output] | None = None
    while True:
        found = trial(int(generator.integers(0, candidates)))
        if best is None or found[:2] < best[:2]:
            best = found
        if int(generator.integers(0, _COIN)) < parts:
            return best


def chance_of_no_trial(stop: float, candidates: int) -> float:
    """The chance that one of several candidates is never drawn: the generating function of a geometric number.

    >>> round(chance_of_no_trial(1 / 16, 2), 3)
    0.059
    """
    others = 1.0 - 1.0 / candidates
    return stop * others / (1.0 - (1.0 - stop) * others)


def coin_parts(stop: float) -> int:
    """How many of 2^30 equal parts stop."""
    return max(1, round(stop * _COIN))


def choose(
    model: str,
    data: object,
    candidates: Sequence[Candidate | str],
    *,
    schema: Any,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    trials: float | None = None,
    ledger: object = None,
    random_state: int | None = None,
) -> Choice:
    r"""Choose among models by their loss on private rows, for one certified charge.

    Args:
        model: "linear", "robust", "logistic" or "poisson".
        data: the path of a table, a data frame, an Arrow table, or named columns.
        candidates: formulas over the schema's columns, or `Candidate` for settings too; two or more, public.
        schema: a `Schema` or the path of one.
        epsilon: of the whole choice, the fit that comes out of it included.
        delta: the chance with which the guarantee may fail.
        relation: which datasets are neighbours, "replace-one" or "add-remove"; there is no default.
        trials: how many are expected; by default eight for each candidate.
        ledger: a `Ledger` or its path; debited before anything is computed from the rows' values.
        random_state: None for secure randomness; a whole number for a choice that can be repeated and not be published.

    Returns:
        A `Choice`: the name, the noised loss, and a release that `show`, `predict` and the report read like any other.

    Raises:
        InputError: for candidates that the schema does not allow or that the budget is too small for, before anything
            is spent.

    Examples:
        >>> import numpy as np, sordino
        >>> from sordino.data import declared_lines
        >>> generator = np.random.default_rng(0)
        >>> columns = {name: generator.uniform(-1, 1, 20000) for name in "abc"}
        >>> columns["y"] = np.clip(0.7 * columns["a"] + 0.1 * generator.standard_normal(20000), -1, 1)
        >>> schema = declared_lines("records = 20000\na: -1..1\nb: -1..1\nc: -1..1\ny: -1..1 [target]")
        >>> made = sordino.explore.choose(
        ...     "linear", columns, ["y ~ a", "y ~ b + c"], schema=schema, epsilon=1.0, delta=1e-6,
        ...     relation="replace-one", trials=4, random_state=2,
        ... )
        >>> made.name
        'y ~ a'
    """
    related = Relation(one_of("relation", relation, tuple(Relation)))
    task, fixed = MODELS[one_of("model", model, SCORED)]
    public = schema if isinstance(schema, Schema) else read_schema(schema)
    if isinstance(candidates, str):
        raise InputError("Candidates must be a list, not a single text.")
    listed = [one if isinstance(one, Candidate) else Candidate(one, one) for one in candidates]
    whole_number("the number of candidates", len(listed), _MOST_CANDIDATES)
    if repeated := repeats([one.name for one in listed]):
        raise InputError(f"Expected different candidates, got {shown_names(repeated)} twice; leave one out.")
    named = tuple(replace(one, settings={**(one.settings or {}), **fixed}) for one in listed)
    expected = number("trials", PER_CANDIDATE * len(named) if trials is None else trials, _MOST_TRIALS)
    made = ChoicePlan.of(task, public, named, data, epsilon, delta, related, expected)
    sources = Sources(random_state)

    def run(access: RowAccess) -> RunContents[tuple[str, float]]:
        table = access.read(lambda: read_table(public.source(data), public.named_columns()))
        rows = read_rows([declaration for declaration, _ in made.plans], related, table, access)
        best = made.ran(rows, sources)
        (place, outcome), mean = best.output, best.loss / public.records
        chosen = {
            "candidate": named[place].name,
            "candidates": [one.name for one in named],
            "loss": mean,
            "loss_noise": made.score.deviation / public.records,
            "expected_trials": made.trials.mean,
            "chance_of_no_trial": chance_of_no_trial(made.trials.stop, len(named)),
        }
        contents = fit_contents(made.plans[place][1], outcome, (named[place].name, mean))
        cautions = (choice_caution(len(named)), *contents.cautions)
        return replace(contents, settings={**contents.settings, CHOSEN: chosen}, cautions=cautions)

    check = partial(check_public, public, related, data)
    paid = {"words": "a choice", "epsilon": epsilon, "ledger": ledger}
    release, (name, loss) = charged_run(made.explanation, run, sources=sources, check=check, **paid)
    return Choice(name, loss, release)


class ChoicePlan(NamedTuple):
    """What is about to run: a plan for each candidate, the noise of the score, and what is certified and charged."""

    plans: tuple[tuple[FitDeclaration, FitPlan], ...]
    score: ScoreNoise
    trials: NegativeBinomialTrials
    explanation: Explanation

    @classmethod
    def of(
        cls,
        task: Task,
        schema: Schema,
        candidates: Sequence[Candidate],
        data: object,
        epsilon: float,
        delta: float,
        relation: Relation,
        expected: float,
    ) -> Self:
        """Shares of the budget, plans and the certificate, from public numbers alone."""
        wanted, fails = number("epsilon", epsilon, POSITIVE), number("delta", delta, OPEN_UNIT)
        trials = NegativeBinomialTrials(shape=1.0, stop=coin_parts(1.0 / expected) / _COIN)
        mu = largest_trial(wanted, fails, schema, relation, trials)
        of_fit, of_score = mu * math.sqrt(FIT_SHARE), mu * math.sqrt(1.0 - FIT_SHARE)
        high = 1.0  # an epsilon whose Gaussian parameter at delta is at most that of a fit
        while largest_mu(high, fails) < of_fit:
            high *= 2.0
        each, _ = narrow(lambda each: largest_mu(each, fails) > of_fit, 0.0, high, near=0.0, halvings=60)
        plans = tuple(_planned(task, schema, one, data, each, fails, relation) for one in candidates)
        score = ScoreNoise(_LOSS, relation, up(_LOSS.under(relation) / of_score, 4))
        largest = max(spent(plan.spec, relation) for _, plan in plans)
        together = up(math.hypot(largest, _LOSS.under(relation) / score.deviation), 4)
        spec = choice_spec(together, schema, relation, fails, trials, len(plans))
        return cls(plans, score, trials, explain(spec, fails))

    def ran(self, rows: Sequence[Any], sources: Sources) -> SelectionTrial[tuple[int, Any]]:
        """The best trial; every trial draws from fresh sources."""

        def trial(place: int) -> SelectionTrial[tuple[int, Any]]:
            own, (_, plan) = rows[place], self.plans[place]
            outcome = plan.method.run(plan, own, sources)
            contents = fit_contents(plan, outcome, None)
            lost = losses(Predictor(contents.release(self.explanation, private=sources.private)), own.X, own.y)
            loss = float(self.score.released(totals(lost[:, None], own.units), sources.fresh())[0])
            key = (place, *(np.asarray(values).tobytes() for _, values in sorted(contents.arrays.items())))
            return SelectionTrial(loss, key, (place, outcome))

        return best_of_trials(trial, len(self.plans), self.trials.stop, sources.fresh())


def _planned(
    task: Task, schema: Schema, one: Candidate, data: object, epsilon: float, delta: float, relation: Relation
) -> tuple[FitDeclaration, FitPlan]:
    """The plan of one candidate's fit, and the declaration that its rows are read with."""
    if schema.weight is not None:
        raise InputError("A choice needs a schema without weights: scores do not weight records.")
    own = schema if one.formula is None else with_formula(schema, one.formula)
    if schema.target != own.target and schema.target is not None:
        raise InputError(f"Expected candidates with the target {schema.target.name!r}, got {one.name!r} with another.")
    declaration = declared(own, task, relation, data, None)  # columns are looked at, and no cell
    problem = FitProblem(task, declaration.schema, epsilon, delta, relation, one.settings or {}, declaration.labels)
    method = METHODS[METHOD]
    reason = method.why_not(problem)
    if reason is not None:
        raise InputError(f"{METHOD!r} cannot fit the candidate {one.name!r}, which it {reason}.")
    if not method.informs(problem):
        why = f"The budget is too small for {one.name!r}: each trial has epsilon {epsilon:.2g}"
        raise InputError(f"{why}. Raise epsilon, or choose from fewer or smaller candidates. Nothing was spent.")
    return declaration, method.plan(problem)


def spent(spec: Spec, relation: Relation) -> float:
    """The mu of a fit that is one noised sum after another, each of all records, rounded up."""
    parts = spec.algorithm.parts if isinstance(spec.algorithm, Composite) else (Part(algorithm=spec.algorithm),)
    squares = []
    for part in parts:
        run = part.algorithm
        if not isinstance(run, NoisedSums) or run.sampling.scheme is not Scheme.FULL:
            raise InputError("This parameter exists only for fits of noised sums over all records.")
        squares += [(1.0 / ratio) ** 2 for ratio in run.relative_noise(relation)]
    return up(math.sqrt(math.fsum(squares)), 8)


def choice_spec(
    mu: float, schema: Schema, relation: Relation, delta: float, trials: NegativeBinomialTrials, candidates: int
) -> Spec:
    """The run in words: the best of a secret number of trials, each a Gaussian mechanism of this mu."""
    query = f"one of {candidates} candidates drawn at random: the noised sums of its fit, then its noised loss"
    replacement = 1.0 if relation is Relation.REPLACE_ONE else None
    base = full_sums(query, schema, 1.0, replacement, ConstantSchedule(1.0 / up(mu, 4)))
    run = RepeatAndSelect(base=Part(algorithm=base), trials=trials)
    return Spec(algorithm=run, relation=relation, view=View.ALL_ITERATES, delta=delta)


def largest_trial(
    epsilon: float, delta: float, schema: Schema, relation: Relation, trials: NegativeBinomialTrials
) -> float:
    """The largest mu of a trial at which the whole choice keeps its budget, on the private side of the search."""

    def too_large(mu: float) -> bool:
        return explain(choice_spec(mu, schema, relation, delta, trials, 2), delta).epsilon > epsilon * (1 - 1e-9)

    low, _ = narrow(too_large, 0.0, largest_mu(epsilon, delta), halvings=40)
    if low <= 0.0:
        raise InputError(f"Expected a budget that a choice can keep, got epsilon {epsilon:g}; choose a larger one.")
    return low * (1.0 - 1e-7)
