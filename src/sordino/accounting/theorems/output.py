"""The minimiser of a strongly convex objective, released with noise: output perturbation.

Statement:
    Let F and F' be the objectives of two neighbours, both m-strongly convex on the same convex set, with F - F'
    L-Lipschitz there. Their minimisers are at most L / m apart: strong convexity at both of them gives
    m |x - x'|^2 <= (F - F')(x') - (F - F')(x) <= L |x - x'|. Points found within t of them are at most
    D = L / m + 2 t apart.

Formal guarantees:
    With Gaussian noise of standard deviation s the release is mu-Gaussian DP with mu = D / s; with Laplace noise of
    scale s in each of d coordinates it is pure DP with epsilon = sqrt(d) D / s. Both are rounded up.

Assumptions:
    Machine-checked: the constants are certified from public knowledge, the ratio is within numerical reach.
    Caller-checked: the point that is released was proven to be within the tolerance, for whatever records there are.

Edge cases:
    One parameter: the Laplace mechanism's own value. Tolerance 0: the exact minimiser. A mean is the minimiser of a sum
    of squares, so a noised mean is a case of this.

References:
    Chaudhuri, Monteleoni & Sarwate 2011, Lemma 7 and Algorithm 1; Dong, Roth & Su 2022, Theorem 2.7.
"""

import math

from sordino.accounting.assumptions import at_most, caller_checked, certified_parts, changed
from sordino.accounting.evaluate import Monotone, Scope, theorem
from sordino.core.bound import Certificate, Citation, Relation, Status, View
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee, PureDP
from sordino.core.spec import AverageNoiseKind, OutputPerturbation, Spec
from sordino.core.validate import InputError

# A quotient, a sum and a root: a few units in the last place, rounded up.
_ROUND_UP = 1 + 1e-14
_SMALLEST = 1e-300


def minimiser_move(run: OutputPerturbation) -> float:
    """How far one record moves the point that is released, rounded up."""
    exact = run.lipschitz.value / run.strong_convexity.value
    return max((exact + 2.0 * run.tolerance) * _ROUND_UP, _SMALLEST)


def _run(spec: Spec) -> OutputPerturbation:
    if isinstance(spec.algorithm, OutputPerturbation):
        return spec.algorithm
    raise InputError("Expected an output-perturbation run, got another; use evaluate.")


def _ratio(spec: Spec) -> float:
    """The move over the noise: mu, or the pure epsilon."""
    run = _run(spec)
    spread = math.sqrt(run.dim) if run.noise.kind is AverageNoiseKind.LAPLACE and run.dim > 1 else 1.0
    return up(minimiser_move(run) * spread / run.noise.scale, 3)


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    run = spec.algorithm
    return (run.lipschitz, run.strong_convexity) if isinstance(run, OutputPerturbation) else ()


@theorem(
    id="output.strongly-convex",
    statement=(
        "The minimiser of F, m-strongly convex, with F - F' L-Lipschitz for neighbours, found to within t, moves by at "
        "most D = L / m + 2 t. With Gaussian noise of standard deviation s its release is mu-Gaussian DP with mu = "
        "D / s; with Laplace noise of scale s in each of d coordinates it is pure DP with epsilon = sqrt(d) D / s."
    ),
    citation=Citation("chaudhuri2011differentially", "Lemma 7 and Algorithm 1, with Gaussian noise and a tolerance"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"output-perturbation"}),
        frozenset({View.POSTERIOR_PARAMETERS}),
        {Relation.REPLACE_ONE: frozenset(), Relation.ADD_REMOVE: frozenset()},
    ),
    assumptions=(
        certified_parts("algorithm", _certificates),
        at_most(
            "reach",
            "the minimiser moves at most {limit:g} times its noise",
            lambda spec: _ratio(spec) if isinstance(spec.algorithm, OutputPerturbation) else None,
            "evaluates moves of at most {limit:g} times the noise, and this one is {value}",
            changed({"algorithm.lipschitz": 1e200}),
        ),
        caller_checked(
            "proven tolerance", "the point released is within the tolerance of the minimiser, whatever the records are"
        ),
    ),
    certificates=_certificates,
    monotone=(
        ("algorithm.lipschitz", Monotone.RISES),
        ("algorithm.strong_convexity", Monotone.FALLS),
        ("algorithm.tolerance", Monotone.RISES),
        ("algorithm.noise.scale", Monotone.FALLS),
    ),
)
def strongly_convex(spec: Spec) -> Guarantee:
    """One release of one point whose move is bounded surely."""
    ratio = _ratio(spec)
    return GaussianDP(ratio) if _run(spec).noise.kind is AverageNoiseKind.GAUSSIAN else PureDP(ratio)
