"""`attack`: many models of two neighbours of a described run, fitted by its own kernel and distinguished.

Where the law of a score is known, Gaussian with a shift that is not, the difference of mean scores bounds the shift,
and the shift fixes epsilon. Everywhere else errors are counted.
"""

import numpy as np

from sordino.auditing.attack.audit import audit_by_attack, audit_by_fixed_score, audit_instance_by_attack
from sordino.auditing.attack.chains import (
    ChainFit,
    constant_pull_model,
    exposed_position,
    extremal_rows,
    extremal_scores,
    on_one_axis,
)
from sordino.auditing.attack.experiment import Claim, chain_of, drawn_seeds, fit_here, need_feasible, seed_policy
from sordino.auditing.confidence import band_tests, epsilon_of_mu
from sordino.auditing.exact.extremal_chain import extremal_gap
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, Examined, LowerBound, audit_method
from sordino.auditing.methods.one_run import GroupedCanaries, KnownGaussian, mu_lower, why_not_linear
from sordino.core.bound import Relation
from sordino.core.spec import Spec


@audit_method("attack", fits_models=True)
def attack(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound by attack on a noisy gradient spec: its instance where it has one, else its extremal quadratic."""
    chain_of(spec)
    need_feasible(spec if spec.instance is not None else on_one_axis(spec), options.models)
    if spec.instance is None:
        return _extremal(spec, options)
    instance = audit_instance(spec)
    return audit_instance_by_attack(ChainFit(spec, instance.model), instance, spec.view, options, "")


def _extremal(spec: Spec, options: AuditOptions) -> LowerBound:
    extremal_gap(spec)  # refused where the quadratic need not be what the spec claims
    spec = on_one_axis(spec)
    pair, model = extremal_rows(spec, exposed_position(spec)), constant_pull_model(spec)
    scores = extremal_scores(spec, pair, model.weight_decay)
    claim, fit = Claim(spec.relation, spec.view), ChainFit(spec, model)
    evidence = (
        f"Run by this code: the described chain, on the worst-case quadratic of the spec's constants, record "
        f"{pair.position} in question, along the first axis"
    )
    if not why_not_linear(spec):
        return _known_law(spec, options)
    if any(score.learns for score in scores):
        return audit_by_attack(fit, pair.first, pair.second, scores, claim, options, evidence)
    nothing = np.empty((0, 1))
    known = scores[0].learn(nothing, nothing)
    return audit_by_fixed_score(fit, pair.first, pair.second, known, claim, options, evidence)


# Of the failure probability, what the trade-off curve of counted errors gets beside the known law.
_OF_CURVE = 0.1


def _known_law(spec: Spec, options: AuditOptions) -> LowerBound:
    """Many models whose scores are N(shift, 1) and N(0, 1), or half of it either way: their means bound the shift."""
    planted = GroupedCanaries.of(spec)
    position = int(planted.positions[0])
    pair, each_side = extremal_rows(spec, position), options.models // 2
    failure = 1.0 - options.confidence
    seeds = drawn_seeds(options, each_side)
    sides = (options.fit_sides or fit_here)(planted.fit, (pair.second, pair.first), seeds)
    first, second = (np.array([float(planted.scores(release)[0]) for release in side]) for side in sides)
    known = KnownGaussian(
        "the worst-case quadratic is linear in its records, their order is fixed, and the sides differ in one record",
        mirrored=spec.relation is Relation.REPLACE_ONE,
    )
    heads = np.repeat([False, True], each_side)
    mu = mu_lower(np.concatenate([first, second]), heads, known, 1.0 - (1 - _OF_CURVE) * failure)
    tests = band_tests(first, second, 1.0 - _OF_CURVE * failure)
    counted = max(test.point.epsilon(options.delta) for test in tests)
    by_law = epsilon_of_mu(mu, options.delta)
    return LowerBound(
        epsilon=max(by_law, counted),
        delta=options.delta,
        relation=spec.relation,
        view=spec.view,
        method="attack",
        confidence=options.confidence,
        counts=(("models", 2 * each_side), ("models of the first dataset", each_side)),
        cap=None,
        examined=Examined.RUN,
        seed_policy=seed_policy(options),
        evidence=(
            f"Run by this code: the described chain, on the worst-case quadratic of the spec's constants, record "
            f"{position} in question; difference of mean scores under known Gaussian noise: {known.reason}"
        ),
        curve=tuple(test.point for test in tests),
    )
