"""Langevin chains: drifts with known laws, the constants of Bertazzi et al. 2025, and the smaller of two moduli."""

import math

import numpy as np
import pytest

from sordino.accounting.bounds.closed_forms import full_shift
from sordino.accounting.bounds.solver import TwoLines, optimal_shift, two_line_shift
from sordino.accounting.evaluate import Theorem, evaluate, explain, theorems
from sordino.accounting.theorems import langevin as girsanov
from sordino.accounting.theorems.langevin import constant_drift, last_iterate, last_iterate_window
from sordino.accounting.theorems.shifted_bounded import drift_bounded
from sordino.accounting.theorems.transfer import langevin_distance
from sordino.core.bound import Inapplicable
from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, Quadratics, chain_law
from tests.accounting.described import curved, example, mu, noisy_chain, refusal
from tests.models.exact.laws import total_variation

# Linear drifts with weight decay: exact Gaussian laws, which shifted.drift-bounded attains.


def check_linear_drift(seed: int) -> None:
    """One record that pulls one way or the other: the mu of the two laws is the bound, in any dimension."""
    rng = np.random.default_rng([seed, 77])
    dim, steps = int(rng.integers(1, 6)), int(np.exp(rng.uniform(0, 6)))
    v, decay = (float(value) for value in np.exp(rng.uniform(-5, 5, 2)))
    # Below 1 / decay consecutive moves point the same way, and nothing is lost.
    step = float(np.exp(rng.uniform(-6, 0))) / decay
    scale = 2 * step * v / float(np.exp(rng.uniform(-4, 1)))
    start = {"start": {"kind": "point", "values": (scale * rng.normal(size=dim)).tolist()}}
    problem = {"n": 1, "dim": dim, "drift_bound": v, "regulariser": curved(decay)}
    spec = noisy_chain(steps, step, scale, "full", problem, algorithm=start)
    axis = rng.normal(size=dim)
    axis *= v / np.linalg.norm(axis)
    laws = [
        chain_law(spec, Quadratics(np.zeros((1, dim, dim)), pull[None], np.zeros(1, int), decay))
        for pull in (axis, -axis)
    ]
    apart = laws[0].mean - laws[1].mean
    exact = float(np.sqrt(apart @ np.linalg.solve(laws[0].covariance, apart)))
    assert mu(drift_bounded, spec) == pytest.approx(exact, rel=1e-9)
    for theorem in (drift_bounded, last_iterate, last_iterate_window):
        assert mu(theorem, spec) >= exact * (1 - 1e-11)


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 1040), marks=pytest.mark.slow)])
def test_the_drift_bound_is_attained_by_linear_drifts(seeds):
    for seed in seeds:
        check_linear_drift(seed)


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.slow)])
def test_the_final_value_of_an_ornstein_uhlenbeck_process_is_below_both_propositions(seeds):
    """Propositions 4.5 and 4.6: dX = (-pull X + p) dt + sqrt(2 / beta) dW for two p that are `apart`."""
    for seed in seeds:
        generator = np.random.default_rng(seed)
        beta, pull, apart = (float(value) for value in np.exp(generator.uniform(-3, 3, 3)))
        time = float(np.exp(generator.uniform(-3, 4)))
        close = apart * -math.expm1(-pull * time) / pull
        exact = close / math.sqrt(-math.expm1(-2 * pull * time) / (beta * pull))
        assert girsanov.mu_of(girsanov.final_constant(beta, pull, apart, close, time)) >= exact


def test_the_path_is_attained_by_constant_drifts():
    """A Brownian motion with drift: the final value says all there is to know of the path."""
    beta, apart, time = 2.0, 0.3, 7.0
    # Moving one into the other over the whole time doubles the drift, so the final value is charged for its path.
    final = girsanov.final_constant(beta, 0.0, apart, apart * time, time)
    assert girsanov.mu_of(final) == pytest.approx(apart * time / math.sqrt(2 * time / beta), rel=1e-12)


# The paper's constants, the repaired ones and ours.

STEPS = 100_000


def spec(a: float, smooth: float, step: float, steps: int = STEPS) -> Spec:
    """beta = v = 1: clipping alone says how large the drift is."""
    problem = {"n": 10, "dim": 3, "regulariser": {"strong_convexity": a, "smoothness": smooth}}
    clipping = {"clipping": {"kind": "norm", "bound": 1.0}}
    return noisy_chain(steps, step, math.sqrt(2 * step), "full", problem, algorithm=clipping)


def constant(theorem: Theorem, run: Spec) -> float:
    """C = 2 mu^2 of a theorem's answer."""
    return 2 * mu(theorem, run) ** 2


def monotone_constant(a: float, smooth: float, step: float, steps: int) -> float:
    """C with the modulus of a monotone drift, sqrt(1 - 2 eta a + eta^2 L^2)."""
    rho = math.sqrt(max(0.0, 1 - 2 * step * a + step**2 * smooth**2))
    return 2 * full_shift(rho, 2 * step / math.sqrt(2 * step), steps) ** 2


# (a, L, gamma): exact, with rho of a monotone drift, as stated, with the proof's own "+ 2".
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1.0, 1.0, 0.02), (7.92, 7.92, 25.41)),
        ((0.1, 1.0, 0.02), (79.92, 88.73, 2065)),
        ((10.0, 10.0, 0.02), (0.72, 0.72, 11.86)),
    ],
)
def test_the_reference_values_of_section_five(given, expected):
    run = spec(*given)
    found = (constant(drift_bounded, run), monotone_constant(*given, STEPS), constant(last_iterate, run))
    assert found == pytest.approx(expected, rel=5e-4)


def test_the_drift_bound_is_below_the_papers_constant_and_the_best_window_wherever_they_apply():
    """This is also why the stated constant, whose proof is off, holds."""
    generator = np.random.default_rng(5)
    for _ in range(300):
        smooth = float(np.exp(generator.uniform(-4, 4)))
        a = smooth * float(generator.uniform(0.01, 1))
        step = 2 * a / smooth**2 * float(generator.uniform(0.001, 0.999))
        steps = int(generator.integers(1, 10**6))
        run, monotone = spec(a, smooth, step, steps), monotone_constant(a, smooth, step, steps)
        assert constant(drift_bounded, run) <= monotone * (1 + 1e-9)
        most = (constant(last_iterate, run), constant(last_iterate_window, run), 8 / (a - step * smooth**2 / 2))
        assert monotone <= min(most) * (1 + 1e-9)


# A norm-clipped network with weight decay, of whose loss nothing is known: what certify finds and prints.

RUN = example("clipped-mlp-weight-decay")


def test_clipping_alone_makes_the_theorems_apply():
    bare = RUN.with_values({"problem.gradient_bound": None, "problem.gradient_sensitivity": None})
    found = explain(bare, 1e-5)
    expected = {"composition.gaussian", "langevin.path", "langevin.last-iterate", "shifted.drift-bounded"}
    assert {bound.theorem for bound, _ in found.bounds} >= expected
    assert found.tightest is not None
    assert found.tightest.theorem == "shifted.drift-bounded"
    evidence = {certificate.constant.name: certificate.evidence.word for certificate in found.tightest.certificates}
    assert evidence["gradient_bound"] == "by-construction"


def test_poisson_batches_may_hold_more_than_their_divisor() -> None:
    poisson = RUN.with_values({"algorithm.batch": {"scheme": "poisson", "size": 10}})
    for theorem in theorems():
        if theorem.id.startswith(("langevin.", "shifted.")):
            answer = evaluate(theorem, poisson)
            assert isinstance(answer, Inapplicable)
            # Those that cover Poisson batches know no modulus of clipped gradients there; the others say so at once.
            covered = theorem.scope.failure(poisson) is None
            assert ("norm clipping keeps strong_convexity" if covered else "poisson") in answer.reason


def test_constant_pulls_make_privacy_grow_with_the_batch() -> None:
    run = example("langevin-constant-drift")
    # Theorem 5.7: beta = 2 * 0.05 / 0.01 = 10, v / b = 1 / 20, a - gamma L^2 / 2 = 0.475.
    assert constant(constant_drift, run) == pytest.approx(10 / 20**2 * (2 * 2 / 0.475 + 1) ** 2, rel=1e-12)
    halved = mu(constant_drift, run.with_values({"algorithm.batch.size": 40}))
    assert halved == pytest.approx(mu(constant_drift, run) / 2, rel=1e-12)
    reason = refusal(constant_drift, run.with_values({"problem.unclipped_smoothness": 0.1}))
    assert "do not depend on the parameters" in reason


# The smaller of two moduli: changes between two lines.


def lines(steps: int, far: tuple[float, float], near: tuple[float, float], period: int = 1) -> TwoLines:
    used = np.arange(steps - 1, -1, -1) % period == 0
    constants = (np.full(steps, value) for value in (*far, near[0]))
    return TwoLines(*constants, np.where(used, near[1], 0.0), np.ones(steps))


def alone(given: TwoLines) -> float:
    """The better one of the two lines."""
    far = optimal_shift(given.far_contractions, given.far_moves, given.noises)
    return min(far, optimal_shift(given.near_contractions, given.near_moves, given.noises))


def programmed(steps: int, rho: float, bounded: float, c: float, s: float, points: int = 300) -> float:
    """The smallest mu for the modulus min(rho z + bounded - s, c z), by dynamic programming over the distance.

    z_k = omega(z_{k-1}) + s - a_k on a grid up to a distance that is never passed. A push lands on a grid point, or
    stops short and the distance is rounded up to one: an upper bound, off by the square of the spacing.
    """
    grid = np.linspace(0.0, bounded / (1 - rho), points + 1)
    stretched = np.minimum(rho * grid + bounded - s, c * grid)
    pushes = np.maximum((stretched + s)[:, None] * (1 + 1e-15) - grid, 0.0)
    cost = np.zeros(len(grid))
    for _ in range(steps):
        cost = np.min(cost[:, None] + pushes**2, axis=0)
    return math.sqrt(cost[0]) * (1 + 1e-12)


# Steps, rho, 2 eta v, c, s: cases in which neither line alone is the best.
@pytest.mark.parametrize(
    ("steps", "rho", "bounded", "c", "s"),
    [(139, 0.94, 1.0, 0.99, 0.43), (400, 0.95, 1.0, 1.02, 0.3), (400, 0.97, 0.5, 1.0, 0.2), (250, 0.9, 1.0, 1.05, 0.4)],
)
def test_changes_between_the_lines_agree_with_dynamic_programming(steps, rho, bounded, c, s):
    given = lines(steps, (rho, bounded), (c, s))
    found = two_line_shift(given)
    assert found < 0.99 * alone(given)
    most = programmed(steps, rho, bounded, c, s)
    assert most * 0.95 <= found <= most * (1 + 1e-9)


def test_two_lines_are_never_above_either_and_a_long_run_is_seen_through_its_last_steps():
    generator = np.random.default_rng(9)
    for _ in range(60):
        steps, period = int(generator.integers(1, 120)), int(generator.choice([1, 1, 4, 9]))
        rho = float(generator.uniform(0.5, 0.99))
        near = rho + float(generator.uniform(0, 0.4)), float(generator.uniform(0.01, 1.0))
        given = lines(steps, (rho, 1.0), near, period)
        assert two_line_shift(given) <= alone(given) * (1 + 1e-9)
    short, long = (lines(steps, (0.99, 1.0), (1.01, 0.4)) for steps in (9_000, 100_000))
    assert two_line_shift(long) == pytest.approx(two_line_shift(short), rel=1e-6)


# The distance of the unadjusted Langevin algorithm to its target.


def check_distance(seed: int) -> float:
    """Never below the exact one: x <- (1 - x) theta + N(0, 1) against N(0, 1 / (2 x)), axis by axis."""
    rng = np.random.default_rng([seed, 3])
    dim = int(rng.integers(1, 4))
    steepness = float(np.exp(rng.uniform(-9, np.log(1.95))))
    decay = steepness * float(np.exp(rng.uniform(-4, 0)))
    steps = int(np.exp(rng.uniform(0, 3)) / decay) + 1
    curvatures = np.append([decay, steepness], rng.uniform(decay, steepness, 2))[:dim]
    start = rng.normal(size=dim) * float(np.exp(rng.uniform(-3, 6)))
    kept = 1 - curvatures
    law = GaussianLaw(kept**steps * start, np.diag((1 - kept ** (2 * steps)) / (1 - kept**2)))
    bound = langevin_distance(decay, steepness, dim, float(np.linalg.norm(start)), steps)
    assert bound >= total_variation(law, GaussianLaw(np.zeros(dim), np.diag(1 / (2 * curvatures)))).low
    return bound


def test_the_distance_to_the_posterior_is_never_below_the_exact_one():
    bounds = [check_distance(seed) for seed in range(150)]
    assert sum(bound < 0.5 for bound in bounds) >= 30, "the test needs cases in which the bound says something"


@pytest.mark.slow
def test_the_distance_is_never_below_the_exact_one_on_many_targets():
    for seed in range(150, 2500):
        check_distance(seed)
