"""Theorems 9 and 10 of Simsekli et al. with the factor their proof drops, for certified ergodicity constants only."""

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.certified_sections import certified_section, section_certificates
from sordino.accounting.heavy_tail.markov import Dissipative, Lyapunov, corrected_bound, lyapunov
from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.heavy_tail_needs import NOISES, stable_unit, start_moment, tail_index
from sordino.accounting.theorems.hidden_state_needs import CONSTANT, UNPROJECTED
from sordino.accounting.theorems.shift_needs import chain_of
from sordino.core.bound import Status
from sordino.core.certificate import Certificate
from sordino.core.citation import Citation
from sordino.core.constants import DISSIPATIVITY, ERGODICITY_C, ERGODICITY_RHO
from sordino.core.guarantee import Guarantee, TotalVariation
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View

_LOSS = tuple(DISSIPATIVITY.values())
_ERGODIC = (ERGODICITY_C, ERGODICITY_RHO)


def _loss(spec: Spec) -> Dissipative | None:
    """The constants of the loss, or None where they are not given or m = 0."""
    found = section_certificates(spec, _LOSS)
    values = {certificate.constant: certificate.value for certificate in found}
    if len(found) < len(_LOSS) or values[DISSIPATIVITY["m"]] == 0.0:
        return None
    return Dissipative(**{name: values[constant] for name, constant in DISSIPATIVITY.items()})


def _constants(spec: Spec) -> Lyapunov | None:
    """Lemmas 7, 8 and 14, or None where schedules or constants are missing."""
    chain, loss = chain_of(spec), _loss(spec)
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    if loss is None or step is None or scale is None:
        return None
    start = start_moment(chain, spec.dim, 1.0) + loss.stable_point
    left_out = 1 - chain.divisor(spec.n) / spec.n
    return lyapunov(loss, tail_index(chain), scale * stable_unit(chain), step, spec.dim, start, left_out)


def _flat(spec: Spec) -> str | None:
    stated = section_certificates(spec, (DISSIPATIVITY["m"],))
    return "needs dissipativity.m > 0, and it is 0" if stated and stated[0].value == 0.0 else None


def _step_too_large(spec: Spec) -> str | None:
    loss, step = _loss(spec), chain_of(spec).step_size.constant
    if loss is None or step is None or step < loss.largest_step:
        return None
    return f"needs eta < min(m / K1^2, 1 / m) = {loss.largest_step:.6g}, and eta = {step:.6g}"


def _too_few_records(spec: Spec) -> str | None:
    found = _constants(spec)
    if found is None or spec.n > 3 * (found.distance + 1):
        return None
    return f"needs n > 3 (M + 1) = {3 * (found.distance + 1):.6g}, and n = {spec.n}"


def _batch_too_small(spec: Spec) -> str | None:
    chain, loss = chain_of(spec), _loss(spec)
    if loss is None or chain.divisor(spec.n) == spec.n:
        return None
    room = 1 - loss.m / (8 * loss.K2 * loss.D) if loss.K2 * loss.D > 0 else 0.0
    if chain.divisor(spec.n) >= room * spec.n * (1 + 1e-12):
        return None
    return f"needs b >= (1 - m / (8 K2 D)) n = {room * spec.n:.6g}, and b = {chain.divisor(spec.n)}"


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    return section_certificates(spec, (*_LOSS, *_ERGODIC))


@theorem(
    id="heavy-tail.markov",
    statement=(
        "If the loss is dissipative and the chain V-uniformly ergodic with constants C and rho, V = 1 + |theta - "
        "theta_*|, the last iterate of a chain with stable noise is (0, delta)-DP with delta = (3 kappa M / "
        "((1 - rho) n)) log(n / M) (2 C (H + 1))^{1 / log(n / M)}, kappa = max(E V(theta_0), H / (1 - beta)), M of "
        "Theorem 9, beta and H of (15) and (16), or (45) and (46) for random batches. The published statement drops "
        "the last factor, which is at least 1."
    ),
    citation=Citation("simsekli2024differential", "Theorems 9 and 10, with Lemma 5 in full"),
    status=Status.CORRECTED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.WITHOUT_REPLACEMENT})},
        NOISES,
    ),
    assumptions=(
        certified_section("dissipativity", _LOSS),
        certified_section("ergodicity", _ERGODIC),
        CONSTANT,
        UNPROJECTED,
        Assumption("dissipative", "m > 0", _flat, lambda spec: spec.with_values({"problem.dissipativity.m": 0.0})),
        Assumption(
            "step size",
            "the step size eta is below min(m / K1^2, 1 / m)",
            _step_too_large,
            lambda spec: spec.with_values({"problem.dissipativity.K1": 1e3}),
        ),
        Assumption(
            "records",
            "n > 3 (M + 1)",
            _too_few_records,
            lambda spec: spec.with_values({"problem.dissipativity.D": 1e9, "algorithm.batch": {"scheme": "full"}}),
        ),
        Assumption(
            "batch size",
            "random batches have b >= (1 - m / (8 K2 D)) n",
            _batch_too_small,
            lambda spec: spec.with_values({"algorithm.batch": {"scheme": "without-replacement", "size": 1}}),
        ),
        caller_checked(
            "ergodicity",
            "C and rho hold for the chain as run on every dataset, with V = 1 + |theta - theta_*|; a rate of drift "
            "is no rate of convergence",
        ),
        caller_checked("dissipativity", "the constants are those of every record's loss, regulariser included"),
    ),
    certificates=_certificates,
)
def markov(spec: Spec) -> Guarantee:
    """Perturbation of a geometrically ergodic chain."""
    values = {certificate.constant: certificate.value for certificate in section_certificates(spec, _ERGODIC)}
    found = _constants(spec)
    bound = 1.0 if found is None else corrected_bound(found, values[ERGODICITY_C], values[ERGODICITY_RHO], spec.n)
    return TotalVariation(bound)
