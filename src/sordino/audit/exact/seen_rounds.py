"""Exact audits of message passing, variational inference and EM when every round is seen."""

from collections.abc import Iterator

import numpy as np

from sordino.audit.exact.composed_loss import ComposedLoss
from sordino.audit.exact.finding import Finding
from sordino.audit.exact.gaussian_shift import GaussianShift, composed_down
from sordino.core.errors import InputError
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair
from sordino.core.relation import Relation
from sordino.core.spec import Rounds, Sampling, Spec
from sordino.core.validate import instance_of
from sordino.core.view import View


def rounds_findings(spec: Spec) -> Iterator[Finding]:
    """A record that moves every round by the round's whole sensitivity; one round is seen whatever the view."""
    run: Rounds = instance_of("spec.algorithm", spec.algorithm, Rounds)
    if spec.view is not View.ALL_ITERATES and run.steps > 1:
        raise InputError(
            f"Expected view all-iterates for an exact audit of several rounds, got {spec.view}; the law of what later "
            "rounds leave of earlier ones is not known."
        )
    ratios = (1 - 1e-15) / run.noise_multiplier.values(run.steps)
    if run.sampling is Sampling.FULL or run.batch_size == run.records:
        yield Finding(GaussianShift(composed_down(ratios)), "a record that moves every round by its whole sensitivity")
        return
    if run.sampling is Sampling.PASSES:
        raise InputError(
            "Expected independent batches for an exact audit of rounds, got passes; their order is hidden."
        )
    yield Finding(
        ComposedLoss(_losses(spec, run, ratios)), "a record that moves a round by all it may when it is drawn"
    )


def _losses(spec: Spec, run: Rounds, ratios: np.ndarray) -> LossDistribution:
    values, counts = np.unique(ratios, return_counts=True)
    mirrored = spec.relation is Relation.REPLACE_ONE and run.sampling is Sampling.POISSON
    return LossDistribution(
        tuple(
            (
                PoissonReplacePair(run.rate, float(value) / 2)
                if mirrored
                else PoissonRemovePair(run.rate, float(value)),
                int(count),
            )
            for value, count in zip(values, counts, strict=True)
        )
    )
