"""`attack`: many models of two neighbours of a described run, fitted by its own kernel and told apart."""

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
from sordino.auditing.attack.experiment import Claim, chain_of, need_feasible
from sordino.auditing.exact.extremal_chain import extremal_gap
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, LowerBound, audit_method
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
        f"Run by this code: the described chain, on the extremal quadratic of the spec's constants, record "
        f"{pair.position} in question, along the first axis"
    )
    if any(score.learns for score in scores):
        return audit_by_attack(fit, pair.first, pair.second, scores, claim, options, evidence)
    nothing = np.empty((0, 1))
    known = scores[0].learn(nothing, nothing)
    return audit_by_fixed_score(fit, pair.first, pair.second, known, claim, options, evidence)
