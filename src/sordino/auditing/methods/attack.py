"""`attack`: many models of two neighbours of a described run, fitted by its own kernel and distinguished.

Where the law of a score is known, Gaussian with a shift that is not, the difference of mean scores bounds the shift,
and the shift fixes epsilon. Everywhere else errors are counted.
"""

import numpy as np

from sordino.auditing import experiment, quadratic
from sordino.auditing.confidence import band_tests
from sordino.auditing.instance import AuditInstance, audit_instance
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.methods.one_run import GroupedCanaries, KnownGaussian, mu_lower, why_not_linear
from sordino.core import gaussian
from sordino.core.bound import Relation
from sordino.core.spec import Spec

FITS_MODELS = True


def attack(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound by attack on a noisy gradient spec: its instance where it has one, else its worst-case quadratic."""
    experiment.chain_of(spec)
    experiment.need_feasible(spec if spec.instance is not None else quadratic.on_few_axes(spec, 1), options.models)
    if spec.instance is None:
        return _extremal(spec, options)
    instance = audit_instance(spec)
    return audit_instance_by_attack(experiment.ChainFit(spec, instance.model), instance, options, "")


def audit_instance_by_attack(
    fit: experiment.FitInBlocks, instance: AuditInstance, options: AuditOptions, run: str
) -> LowerBound:
    """Lower bound from models of an instance's first pair of neighbours; `run` says what is run on it."""
    pair = instance.pair
    evidence = (
        f"Run by this code: the described chain{run}, on {instance.description}; the better of the record's loss and a "
        "linear score of the parameters"
    )
    scores = experiment.model_scores(instance.model, pair)
    return experiment.audit_by_attack(fit, pair.first, pair.second, scores, fit.spec, options, evidence)


def _extremal(spec: Spec, options: AuditOptions) -> LowerBound:
    quadratic.extremal_gap(spec)  # refused where the quadratic need not be what the spec claims
    spec = quadratic.on_few_axes(spec, 1)
    if not why_not_linear(spec):
        return _known_law(spec, options)
    pair = quadratic.extremal_rows(spec, quadratic.exposed_position(spec))
    model = quadratic.ConstantPull(weight_decay=quadratic.extremal_decay(spec))
    evidence = (
        f"Run by this code: the described chain, on the worst-case quadratic of the spec's constants, record "
        f"{pair.position} in question, along the first axis"
    )
    score, fit = quadratic.extremal_score(spec, pair, model.weight_decay), experiment.ChainFit(spec, model)
    return experiment.audit_by_fixed_score(fit, pair.first, pair.second, score, spec, options, evidence)


_OF_CURVE = 0.1  # of the failure probability, what the trade-off curve of counted errors gets beside the known law


def _known_law(spec: Spec, options: AuditOptions) -> LowerBound:
    """Many models whose scores are N(shift, 1) and N(0, 1), or half of it either way: their means bound the shift."""
    planted = GroupedCanaries(spec)
    position = int(planted.positions[0])
    pair, each_side = quadratic.extremal_rows(spec, position), options.models // 2
    failure = 1.0 - options.confidence
    sides = experiment.fitted_sides(planted.fit, pair.second, pair.first, each_side, options)
    first, second = (np.array([float(planted.scores(release)[0]) for release in side]) for side in sides)
    known = KnownGaussian(
        "the worst-case quadratic is linear in its records, their order is fixed, and the sides differ in one record",
        mirrored=spec.relation is Relation.REPLACE_ONE,
    )
    heads = np.repeat([False, True], each_side)
    mu = mu_lower(np.concatenate([first, second]), heads, known, 1.0 - (1 - _OF_CURVE) * failure)
    tests = band_tests(first, second, 1.0 - _OF_CURVE * failure)
    counted = max(test.point.epsilon(options.delta) for test in tests)
    evidence = (
        f"Run by this code: the described chain, on the worst-case quadratic of the spec's constants, record "
        f"{position} in question; difference of mean scores under known Gaussian noise: {known.reason}"
    )
    return options.bound(
        spec,
        "attack",
        max(gaussian.epsilon_lower(mu, options.delta), counted),
        evidence,
        counts=(("models", 2 * each_side), ("models of the first dataset", each_side)),
        seed_policy=experiment.seed_policy(options),
        curve=tuple(test.point for test in tests),
    )
