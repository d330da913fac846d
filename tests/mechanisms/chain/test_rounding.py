"""How far floating point takes the step of a hidden chain, against ball arithmetic; and a spec's word is kept."""

from fractions import Fraction

import flint
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.spec import Clipping, ClippingKind
from sordino.core.validate import InputError
from sordino.mechanisms import SecureRandomness, SeededRandomness, noisy_gd, run
from sordino.mechanisms.chain import kernel
from sordino.mechanisms.chain.claims import ROUNDING, ChainPlan, rounding_needed, score_error
from sordino.models import Domain, Logistic
from sordino.models.contributions import products, whole_rows
from sordino.noise.lattice import Lattice, in_doubles
from sordino.noise.randomness import ADDED

N, WIDTH, CLIP = 700, 4, 0.45
MODEL = Logistic(weight_decay=0.01)
GENERATOR = np.random.default_rng(5)
X = GENERATOR.uniform(-0.5, 0.5, (N, WIDTH)).astype(np.float32)
Y = GENERATOR.choice([-1.0, 1.0], N)


def spec(noise=0.01, rounding=ROUNDING, steps=40):
    problem = MODEL.problem(N, Domain(WIDTH, 1.0), Clipping(ClippingKind.RESIDUAL, CLIP))
    made = noisy_gd(
        problem, step_size=2.0, noise_scale=noise, steps=steps, relation="replace-one", view="last-iterate",
        clipping=Clipping(ClippingKind.RESIDUAL, CLIP), delta=1e-6,
    )  # fmt: skip
    return made.with_values({"algorithm.rounding": rounding})


def real_step(theta: np.ndarray, rows: np.ndarray, reach: float) -> list[flint.arb]:
    """theta - 2 (clipped sum / N + .01 theta), in balls; rows as they were cut."""
    total = [flint.arb(0)] * WIDTH
    for x, y in zip(rows.tolist(), Y.tolist(), strict=True):
        score = sum((flint.arb(a) * flint.arb(b) for a, b in zip(x, theta.tolist(), strict=True)), flint.arb(0))
        length = sum((flint.arb(a) ** 2 for a in x), flint.arb(0)).sqrt()
        residual = -flint.arb(y) / (1 + (flint.arb(y) * score).exp())
        cap = flint.arb(reach) / length
        value = max(min(residual, cap), -cap)
        total = [old + value * flint.arb(a) for old, a in zip(total, x, strict=True)]
    decay = flint.arb(MODEL.weight_decay)
    return [flint.arb(t) - 2 * (s / N + decay * flint.arb(t)) for t, s in zip(theta.tolist(), total, strict=True)]


@pytest.mark.parametrize("size", [0.5, 30.0, 4000.0])
def test_a_computed_step_is_as_far_off_as_counted_at_most(size):
    before, flint.ctx.prec = flint.ctx.prec, 200
    given = spec()
    chain, theta = given.algorithm, np.random.default_rng(1).normal(size=WIDTH) * size
    with in_doubles():
        plan = ChainPlan(given, MODEL)
        lattice, reach = plan.lattice, plan.reach
        program = plan.program(kernel.RowReader(512, False), ADDED)
        records = kernel.load(X, Y, 512, np.float32, plan.row_limits(WIDTH))
        noise = jax.tree.map(jnp.asarray, lattice.halves(np.zeros((1, WIDTH), np.int64)))
        none = jnp.zeros(1, jnp.int32)
        inputs = kernel.StepInputs(jnp.asarray(2.0), jnp.ones(1), noise)
        step = jax.jit(kernel.step, static_argnums=0)
        made = step(
            program, plan.constants(), records, jnp.asarray(theta)[None], kernel.StepBatch(none, none, none), inputs
        )
        rows = np.asarray(records.features, np.float64)[:N]
    real = real_step(theta, rows, float(reach))
    off = sum(((flint.arb(float(a)) - b) ** 2 for a, b in zip(np.asarray(made)[0], real, strict=True)), flint.arb(0))
    flint.ctx.prec = before
    needed = rounding_needed(given, chain, MODEL, float(reach), lattice) * float(chain.noise.scale.values(1)[0])
    assert 0.0 < float(off.sqrt().mid()) <= needed
    # The lattice of iterates, on which what is released lies.
    assert np.all(np.asarray(made) / lattice.spacing % 1.0 == 0.0)


@jax.jit
def _scores(given, weights):
    rows = whole_rows(given)
    return products(rows, weights), rows.rows


@pytest.mark.parametrize("width", [4, 64, 512])
def test_scores_are_as_far_off_as_counted_at_most_in_any_dimension(width):
    """Rows and weights of one sign, so that what is cut off adds up: 2^-46.6 of the lengths with 64 entries."""
    generator, worst = np.random.default_rng(width), 0.0
    given = generator.uniform(0.9, 1.0, (4, width)) / np.sqrt(width)
    theta = generator.uniform(0.5, 1.0, width)
    with in_doubles():
        found, used = map(np.asarray, _scores(given, theta[:, None]))
    for row, score in zip(used.tolist(), found[:, 0].tolist(), strict=True):
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(row, theta.tolist(), strict=True))
        worst = max(worst, abs(float(Fraction(score) - exact)) / (np.linalg.norm(row) * np.linalg.norm(theta)))
    assert worst <= score_error(width)
    assert worst > score_error(width) / 64  # the count is no guess far above it


def test_what_noise_adds_counts_as_often_as_a_step_stretches_it():
    """A step of 80 over a smoothness of a quarter stretches by up to 20; on a coarse lattice little else counts."""
    given, coarse = spec().with_values({"algorithm.step_size": 80.0}), Lattice(-10, -9)
    needed = rounding_needed(given, given.algorithm, MODEL, CLIP, coarse) * 0.01
    half = 0.5 * np.sqrt(WIDTH) * coarse.spacing
    assert 20 * half < needed < 26 * half


def test_a_start_beyond_the_lattice_is_cut_before_the_first_step():
    """Roundings are counted for iterates within the ends; a step from 2^60 would lose more than all its noise."""
    far = spec(steps=1).with_values({"algorithm.start": {"kind": "point", "values": [2.0**60] * WIDTH}})
    end = ChainPlan(far, MODEL).lattice.end
    made = run(far, MODEL, X, Y, SecureRandomness()).iterates[0]
    # The weight decay of .01 over a step of 2 takes a fiftieth off what was cut.
    np.testing.assert_allclose(made, 0.98 * end, rtol=1e-3)


def test_less_than_needed_is_refused_before_a_row_is_read():
    with pytest.raises(InputError, match=r"algorithm.rounding of at least .* got 1e-12"):
        run(spec(rounding=1e-12), MODEL, X, Y, SecureRandomness())
    with pytest.raises(InputError, match=r"algorithm.rounding of at least"):
        run(spec(noise=1e-9), MODEL, X, Y, SecureRandomness())
    free = spec().with_values({"algorithm.clipping": None, "problem.gradient_bound": None})
    with pytest.raises(InputError, match="gradients have no bound"):
        run(free, MODEL, X, Y, SecureRandomness())


def test_a_hidden_chain_learns_what_a_seen_one_does():
    """Two runs of each kind and many seeds would show a difference of a fifth of the spread of one."""
    ends = {
        name: np.array([run(one, MODEL, X, Y, SeededRandomness(seed)).iterates[0] for seed in range(60)])
        for name, one in (("hidden", spec(0.05)), ("seen", spec(0.05, rounding=None)))
    }
    spread = ends["seen"].std(axis=0)
    apart = np.abs(ends["hidden"].mean(axis=0) - ends["seen"].mean(axis=0)) / spread
    # Means of 60 differ by .18 spreads as a rule, by more than one with probability below 1e-6.
    assert apart.max() < 1.0
    assert np.all(np.abs(np.log(ends["hidden"].std(axis=0) / spread)) < 0.7)
