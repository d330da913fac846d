"""`exact`: a lower bound from the laws that the description implies; nothing is run or sampled.

A chain is looked at on its instance, if that is a linear regression, else on the worst-case quadratic; other runs on
the objectives, posteriors or records that move the most.
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import singledispatch
from itertools import combinations

import numpy as np

from sordino.accounting.bounds.matrix import attained, hidden_uses
from sordino.accounting.evaluate import evaluate, theorems
from sordino.auditing.exact import leak
from sordino.auditing.exact.extremal_chain import extremal_findings
from sordino.auditing.exact.leak import ComposedLoss, LawPair, LeakFinding, RandomShiftLeak
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, Examined, GaussianShift, LowerBound
from sordino.core import spec as specs
from sordino.core.bound import Bound, Relation, View
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.guarantee import GaussianDP, LossDistribution
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair
from sordino.core.spec import Scheme, Spec, column_of
from sordino.core.validate import InputError
from sordino.data import Dataset
from sordino.mechanisms.chain.claims import check_regulariser
from sordino.models import exact as laws
from sordino.models.families.regression import GaussianLinear

_MOST_PAIRS, _MOST_RIDGE_PAIRS = 3, 24


def exact(spec: Spec, options: AuditOptions) -> LowerBound:
    """The largest exact epsilon over the pairs of neighbours looked at."""
    pairs = findings(spec)
    best, epsilon = pairs[0], pairs[0].leak.epsilon(options.delta)
    for pair in pairs[1:]:
        # One look at delta shows whether a search for epsilon can end above the best so far.
        more = epsilon * (1 + 1e-6) + 1e-6
        if pair.leak.delta(more) > options.delta and (larger := pair.leak.epsilon(options.delta)) > epsilon:
            best, epsilon = pair, larger
    return options.bound(
        spec,
        "exact",
        epsilon,
        f"Worst pair of neighbours tried: {best.neighbours}.",
        confidence=1.0,
        counts=(("pairs of neighbours", len(pairs)),),
        seed_policy="This audit drew no random numbers: it computed the distributions of the results, by formula or by "
        "numerical integration.",
        examined=Examined.DESCRIPTION,
        # A divergence, or a bracket of the loss, says nothing about single tests.
        curve=best.leak.curve() if isinstance(best.leak, GaussianShift | RandomShiftLeak) else (),
    )


@singledispatch
def _explored(run: object, spec: Spec) -> Iterator[LeakFinding]:
    """The neighbours of a run of this kind whose laws are known; none of other runs."""
    del run, spec
    yield from ()


@_explored.register
def _(run: specs.NoisyGradient, spec: Spec) -> Iterator[LeakFinding]:
    del run
    return extremal_findings(spec) if spec.instance is None else _of_ridge(spec)


@_explored.register
def _(run: specs.OutputPerturbation, spec: Spec) -> Iterator[LeakFinding]:
    """Minimisers exactly L / m apart, with the Gaussian noise of the release."""
    del spec
    if run.noise.kind is not specs.AverageNoiseKind.GAUSSIAN:
        raise InputError("An exact audit of a perturbed minimiser needs Gaussian noise, not Laplace.")
    mu = run.lipschitz.value / run.strong_convexity.value / run.noise.scale
    yield LeakFinding(GaussianShift(mu * (1 - 1e-14)), "quadratic objectives that differ by a linear function")


@_explored.register
def _(run: specs.PosteriorSample, spec: Spec) -> Iterator[LeakFinding]:
    """Gaussian posteriors at the edge of what the potential allows."""
    if run.drawn is not None:
        raise InputError(f"An exact audit of a posterior needs exact draws, not draws made {run.drawn.words}.")
    potential = run.potential
    if isinstance(potential, specs.StronglyLogConcave):
        # N(a, 1/m) against N(0, 1/m) with |a| = lipschitz / m: the potentials differ by a linear function.
        mu = potential.lipschitz.value / math.sqrt(potential.strong_convexity.value) * math.sqrt(run.draws)
        story = "Gaussian posteriors whose potentials differ by a linear function"
        yield LeakFinding(GaussianShift(mu * (1 - 1e-14)), story)
    elif isinstance(potential, specs.LinearRegression):
        yield from _regression(potential, spec, run.draws)
    else:
        raise InputError("An exact audit needs a strongly log-concave or a regression posterior. This one is bounded.")


def _regression(potential: specs.LinearRegression, spec: Spec, draws: int) -> Iterator[LeakFinding]:
    """All records at one corner of the domain, the differing one at another; posteriors ranked by divergence.

    Centred at slope c both means move by nearly the same amount; what is left of the difference is added exactly.
    """
    if spec.relation is not Relation.REPLACE_ONE:
        raise InputError("An exact audit of a regression posterior needs the relation replace-one, not add-remove.")
    spread = math.exp(potential.gamma1 * math.log(spec.n)) * (1 - 1e-14)
    lowest = max(-spread, -potential.c)
    corners = [(x, slope) for x in (potential.x_low, potential.x_high) for slope in (lowest, spread)]
    model = laws.ConjugateRegression(potential.alpha, potential.beta)

    def posterior(common: tuple[float, float], odd: tuple[float, float]) -> laws.GaussianLaw:
        """The posterior of theta - c."""
        x, slopes = (np.array(pair) for pair in zip(common, odd, strict=True))
        centred = model.posterior(x[:, None], x * slopes, [spec.n - 1.0, 1.0])
        mean = centred.mean - potential.alpha * potential.c * centred.covariance[0]
        return laws.GaussianLaw(mean, centred.covariance).copies(draws)

    candidates = [
        (LawPair(posterior(common, first), posterior(common, second)), (common, first, second))
        for common in corners
        for first, second in combinations(corners, 2)
    ]
    for pair, records in sorted(candidates, key=lambda one: -_distance(one[0]))[:_MOST_PAIRS]:
        points = ", ".join(f"({x:g}, c{slope:+.4g})" for x, slope in records)
        words = f"regression posteriors; (x, y/x) of the common records and of the two that differ: {points}"
        yield LeakFinding(pair, words)


@_explored.register
def _(run: specs.NoisedSums, spec: Spec) -> Iterator[LeakFinding]:
    """A record that moves every round by the round's whole sensitivity; one round is seen whatever the view."""
    if spec.view is not View.ALL_ITERATES and run.rounds > 1:
        raise InputError(f"An exact audit of several rounds needs the view all-iterates, not {spec.view}.")
    ratios, scheme = (1 - 1e-15) / run.relative_noise(spec.relation), run.sampling.scheme
    one = "a record" if column_of(spec.unit) is None else "a unit"
    # A rate of its own leaves records out of batches of any size, and so do draws with replacement.
    if scheme is Scheme.FULL or (run.batch_size == run.records and run.rate == 1.0):
        # Independent shifts seen together, rounded down.
        shift = GaussianShift(math.sqrt(math.fsum(np.square(ratios).tolist())) * (1 - 1e-14))
        yield LeakFinding(shift, f"{one} that moves every round by its whole sensitivity")
    elif scheme is Scheme.WITH_REPLACEMENT:
        leak.refuse_repeated_draws(spec.relation, scheme)
        drawn = ComposedLoss.of_repeated_draws(run.batch_size, run.records, ratios, 1)
        yield LeakFinding(drawn, f"{one} that moves a round by all it may, every time it is drawn")
    elif scheme in {Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT}:
        mirrored = spec.relation is Relation.REPLACE_ONE and scheme is Scheme.POISSON
        losses = ComposedLoss.of_draws(run.rate, ratios, 1, mirrored=mirrored)
        yield LeakFinding(losses, f"{one} that moves a round by all it may when it is drawn")
    else:
        raise InputError(f"An exact audit of rounds needs independent batches, not {scheme.value} ones.")


@_explored.register(specs.NoisedAnswer)
@_explored.register(specs.RandomisedResponse)
@_explored.register(specs.RandomShift)
def _(run: specs.Algorithm, spec: Spec) -> Iterator[LeakFinding]:
    """A unit that moves every answer by the whole sensitivity, along one coordinate: what the dominating pair is."""
    story = "a unit that moves every answer by all it may"
    # What holds for all units bounds a sample of them too, but is not attained there.
    sampled = isinstance(run, specs.NoisedAnswer) and run.rate is not None
    named = "mechanism.sampled-answer" if sampled else "mechanism."
    for answer in (evaluate(asked, spec) for asked in theorems() if asked.id.startswith(named)):
        known = answer.guarantee if isinstance(answer, Bound) else None
        if isinstance(known, LossDistribution):
            yield LeakFinding(ComposedLoss(known), story)
        elif isinstance(known, GaussianDP):
            yield LeakFinding(GaussianShift(known.mu * (1 - 1e-14)), story)


@_explored.register
def _(run: specs.MatrixMechanism, spec: Spec) -> Iterator[LeakFinding]:
    """A unit whose contributions all point one way, in the pattern that moves most, or at the step that does."""
    if (hidden := hidden_uses(run)) is not None:
        factors = tuple((pair, count * run.repetitions) for pair, count in hidden[0])
        yield LeakFinding(ComposedLoss(LossDistribution(factors)), f"a unit that contributes all it may, {hidden[1]}")
        return
    ways = (2.0 if spec.relation is Relation.REPLACE_ONE else 1.0) * math.sqrt(run.repetitions) * (1 - 1e-11)
    found = attained(run)
    story = "one step" if found is None else "the worst pattern of steps"
    moved = math.sqrt(float(run.strategy.squares(run.steps).max())) if found is None else found
    shift = GaussianShift(ways * moved / run.noise_multiplier)
    yield LeakFinding(shift, f"a unit that contributes all it may, at {story}")


def _of_ridge(spec: Spec) -> Iterator[LeakFinding]:
    """The laws on the neighbours of the instance; of many candidates those with the largest divergence."""
    instance = audit_instance(spec)
    model = instance.model
    if not isinstance(model, GaussianLinear):
        raise InputError(f"An exact audit of an instance needs the model ridge, not {type(model).__name__}.")
    check_regulariser(spec, model)
    solved = [
        (pair, LawPair(_law(spec, model, pair.first), _law(spec, model, pair.second))) for pair in instance.pairs()
    ]
    for pair, seen in sorted(solved, key=lambda item: -_distance(item[1]))[:_MOST_RIDGE_PAIRS]:
        yield LeakFinding(seen, f"{instance.description}, the neighbours differ in record {pair.position}")


def _law(spec: Spec, model: GaussianLinear, data: Dataset) -> laws.ExactLaw:
    x, y, precision = data.features, data.target, model.noise_precision
    quadratics = laws.Quadratics.from_records(
        precision * x[:, :, None] * x[:, None, :], precision * x * y[:, None], model.weight_decay
    )
    stable = isinstance(spec.algorithm, specs.NoisyGradient) and isinstance(spec.algorithm.noise, specs.StableNoise)
    return (laws.stable_chain_law if stable else laws.chain_law)(spec, quadratics)


def _distance(pair: LawPair) -> float:
    """A quick measure to rank candidates by: the divergence of Gaussians, or how far the middles are apart."""
    if isinstance(pair.first, laws.GaussianLaw) and isinstance(pair.second, laws.GaussianLaw):
        return laws.GaussianLoss.between(pair.first, pair.second).renyi(1.0)
    first, second = (law.line() for law in (pair.first, pair.second))
    middles = abs(float(first.weights @ first.locations) - float(second.weights @ second.locations))
    return middles / min(float(first.weights @ first.scales), float(second.weights @ second.scales))


def findings(spec: Spec) -> tuple[LeakFinding, ...]:
    """Every pair of neighbours that is looked at, at least one; a run whose law is not known is refused."""
    explored = tuple(_explored(spec.algorithm, spec))
    if not explored:
        raise InputError(
            f"The law of a {specs.ALGORITHMS.word_of(spec.algorithm)} run is not known, so it has no exact audit."
        )
    return explored


@_explored.register
def _(run: specs.Composite, spec: Spec) -> Iterator[LeakFinding]:
    """What one record shows in all parts together, for the record that shows most; and each part alone.

    The differing record stands at one place, so its distances in the parts are composed first and the largest over
    records is taken last. Noise and batches of different parts are independent. A part whose losses are not known one
    by one is left out of the composition, which is less than what is seen.
    """
    del run
    equal = Counter(spec.runs())
    explored = {part: findings(part) for part in equal}
    # Of each part the first finding whose losses add up with those of others.
    kinds = GaussianShift | ComposedLoss
    adding = [([each for each in explored[part] if isinstance(each.leak, kinds)], n) for part, n in equal.items()]
    together = [(own[0], count) for own, count in adding if own]
    placed = [finding.placed for finding, _ in together if finding.placed is not None]
    if sum(count for _, count in together) > 1 and len({order.records for order in placed}) <= 1:
        yield _together(together, "record" if column_of(spec.unit) is None else "unit")
    for part in equal:
        yield from explored[part]


def _together(parts: list[tuple[LeakFinding, int]], unit: str) -> LeakFinding:
    """Shifts of one record are one shift; the losses of sampled parts, the same for every record, add to it."""
    placed = [finding.placed for finding, _ in parts if finding.placed is not None]
    starts = [np.arange(len(order.mus)) * order.size for order in placed]
    # Between the starts of any batches all records show the same.
    records = np.unique(np.concatenate(starts)) if starts else np.zeros(1, dtype=np.int64)
    squares = np.zeros(len(records))
    losses: list[tuple[Pair, int]] = []
    for finding, count in parts:
        if isinstance(finding.leak, ComposedLoss):
            losses += [(pair, times * count) for pair, times in finding.leak.losses.factors]
        elif isinstance(finding.leak, GaussianShift):
            squares += count * np.square(finding.leak.mu if finding.placed is None else finding.placed.at(records))
    worst = int(np.argmax(squares))
    mu = math.sqrt(float(squares[worst])) * (1 - (len(parts) + 16) * UNIT_ROUNDOFF)
    which = f"{unit} {records[worst] + 1} differs" if starts else f"one {unit} differs"
    story = f"{which} in all {sum(count for _, count in parts)} parts, and the attacker sees all of them"
    if not losses:
        return LeakFinding(GaussianShift(mu), story)
    return LeakFinding(ComposedLoss(LossDistribution((*([(GaussianPair(mu), 1)] if mu > 0 else []), *losses))), story)
