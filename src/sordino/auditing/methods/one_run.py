"""`one-run`: many canaries, coins that decide them, and one run of the described chain.

Known Gaussian noise where what is released is linear in the records, guesses of coins everywhere else. Both run the
described chain once, on the extremal quadratic of its constants or on its instance.
"""

from dataclasses import replace

import numpy as np

from sordino.auditing.attack.experiment import Claim, chain_of, need_feasible
from sordino.auditing.lower_bound import AuditOptions, LowerBound, audit_method
from sordino.auditing.methods.one_run_guesses import RUN, audit_by_guesses
from sordino.auditing.one_run.known_laws import GroupedCanaries, KnownGaussian, bound_from_scores, why_not_linear
from sordino.core.bound import Relation
from sordino.core.spec import Spec
from sordino.core.validate import InputError


@audit_method("one-run")
def one_run(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound from a single run, by the tightest method that holds: known Gaussian noise, else guesses."""
    chain_of(spec)
    reason = why_not_linear(spec)
    return audit_by_guesses(spec, options, reason) if reason else audit_by_known_noise(spec, options)


def audit_by_known_noise(spec: Spec, options: AuditOptions) -> LowerBound:
    """Audit a chain whose release is linear in its records; refused where it is not."""
    chain_of(spec)
    reason = why_not_linear(spec)
    if reason:
        raise InputError(f"Expected a chain with known Gaussian noise, got one where {reason}; use guesses.")
    planted = GroupedCanaries.of(spec)
    need_feasible(planted.spec, 1)
    generator = np.random.default_rng(np.random.SeedSequence(options.seed))
    heads = np.zeros(planted.groups, bool)
    heads[generator.permutation(planted.groups)[: (planted.groups + 1) // 2]] = True
    release = planted.fit(planted.flipped(heads), generator.integers(0, 2**63, 1).astype(np.uint64))
    known = KnownGaussian(
        "the extremal quadratic is linear in its records, their order is fixed, and nothing else differs between axes",
        group=planted.size,
        # Two groups need no baseline: a chain that is off by a constant leaks nothing by it.
        baseline=0.0 if planted.groups == 1 else None,
        mirrored=spec.relation is Relation.REPLACE_ONE,
    )
    scores = planted.scores(release)
    evidence = (
        f"{RUN}, on the extremal quadratic of the spec's constants, with {planted.groups} group"
        f"{'' if planted.groups == 1 else 's'} of {planted.size} canaries that pull along an axis each, forward or "
        f"{'backward' if known.mirrored else 'not at all'} by a coin"
    )
    bound = bound_from_scores(
        scores[: planted.groups],
        heads,
        known,
        Claim(spec.relation, spec.view),
        options,
        evidence,
        scores[planted.groups :],
    )
    if bound.epsilon > 0.0:
        return bound
    why = (
        f". Nothing was found: one canary is described to shift the release by {planted.shift:.2g} standard "
        f"deviations, too little for so few of them at {100 * options.confidence:g} %; many models (attack) or the "
        "known law (exact) can tell more."
    )
    return replace(bound, evidence=bound.evidence + why)
