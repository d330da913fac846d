"""The data part of a chain's drift: how large it can be, and how far apart two datasets' can be anywhere.

The chain is theta - eta (V_B(theta) + grad r(theta)) + tau xi with V_B the batch sum over b. Per-example gradients of
at most C, by clipping of any network say, make |V_B| <= C for every batch of at most b records, whatever the loss; a
declared drift bound v does the same. Two datasets' data parts then differ by at most 2 v, at different
points too.
"""

import math
from dataclasses import dataclass

import numpy as np

from sordino.accounting.constants import certificate_for
from sordino.accounting.shifts.chain_steps import Identical, Listed, chain_steps
from sordino.accounting.shifts.contraction import Contraction, regulariser_contraction
from sordino.core.certificate import Certificate
from sordino.core.constants import DRIFT_BOUND, GRADIENT_BOUND
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import NoisyGradient, Spec


@dataclass(frozen=True)
class Drift:
    """A bound v on the data part of every neighbour's drift, and the certificate it follows from."""

    bound: float
    certificate: Certificate


def drift_of(spec: Spec) -> Drift | None:
    """The smallest usable bound on the data part: declared, or by the per-example bound; one to refuse; or None.

    Under add-remove one of the neighbours may have a record more than the divisor n: its data part is at most
    C (n + 1) / n. A declared drift bound holds for every neighbour as it stands.
    """
    declared, single = certificate_for(spec, DRIFT_BOUND), certificate_for(spec, GRADIENT_BOUND)
    # (2 + 1/n) C for the pair; half of it stands for each.
    larger = 1.0 + 0.5 / spec.n if spec.relation is Relation.ADD_REMOVE else 1.0
    found = [] if declared is None else [Drift(declared.value, declared)]
    if single is not None:
        found.append(Drift(single.value if larger == 1.0 else up(larger * single.value, 2), single))
    public = [drift for drift in found if not drift.certificate.reads_private_data]
    return min(public or found, key=lambda drift: drift.bound, default=None)


def drift_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """The drift's certificate and those of the regulariser."""
    drift, modulus = drift_of(spec), regulariser_contraction(spec)
    return (
        *(() if drift is None else (drift.certificate,)),
        *(modulus.certificates if isinstance(modulus, Contraction) else ()),
    )


def drift_steps(spec: Spec) -> Identical | Listed:
    """The steps of a run whose data part is bounded: the regulariser's modulus, and moves of 2 eta v at every step."""
    chain, drift, modulus = spec.algorithm, drift_of(spec), regulariser_contraction(spec)
    if not isinstance(chain, NoisyGradient) or drift is None or not isinstance(modulus, Contraction):
        raise InputError("Expected a chain with a certified drift and regulariser, got one without; use evaluate.")
    return chain_steps(chain, modulus, 2.0 * drift.bound)


def largest_ratio(steps: Identical | Listed) -> float:
    """The largest move in units of its noise; infinite on overflow."""
    if isinstance(steps, Identical):
        return steps.ratio
    with np.errstate(over="ignore"):
        ratio = float(np.max(steps.moves / steps.noises))
    return math.inf if math.isnan(ratio) else ratio
