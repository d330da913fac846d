"""Rounding as a shift: equal to the exact value where roundings are as bad as stated, and small at the default."""

import itertools
import json
import math
from pathlib import Path

import pytest

from sordino import InputError, Spec
from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.mechanisms.chain.claims import ROUNDING
from tests.accounting.described import guarantee, mu, noisy_chain, refusal

# Theorems that take roundings into account.
ROUNDED = {f"shifted.{name}" for name in ("cyclic", "full", "drift-bounded", "drift-bounded-smooth", "projected")}
ROUNDED |= {"shifted.projected-nonconvex", "shifted.projected-smooth", "average.coupling", "average.random-batches"}
ROUNDED |= {f"composition.{name}" for name in ("gaussian", "kept", "parallel-epochs", "separated-uses")}
ROUNDED |= {"langevin.path", "langevin.last-iterate"}


def spec(rounding, scheme="full", steps=30, step=0.4, noise=0.05):
    batch = {"scheme": scheme} | ({} if scheme == "full" else {"size": 5})
    problem = {"n": 20, "gradient_sensitivity": 1.0, "strong_convexity": 0.5, "smoothness": 0.5}
    gaussian = {"kind": "gaussian", "scale": noise}
    return noisy_chain(steps, step, gaussian, batch, problem, algorithm={"rounding": rounding}, delta=1e-5)


@pytest.mark.parametrize("steps", [1, 7, 200])
@pytest.mark.parametrize("share", [0.3, 1e-3])
def test_roundings_at_their_worst_cost_exactly_what_is_added(steps, share):
    """A quadratic chain whose steps are rounded up on D and down on D': both laws are Gaussian, and known."""
    given = spec(share, steps=steps)
    c, s, tau = 1.0 - 0.4 * 0.5, 0.4 * 1.0 / 20, 0.05
    apart, variance = 0.0, 0.0
    for _ in range(steps):
        apart, variance = c * apart + s + 2 * share * tau, c * c * variance + tau * tau
    exact = apart / math.sqrt(variance)
    assert exact <= mu("shifted.full", given) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("steps", [10, 43])
def test_cyclic_batches_pay_for_roundings_at_quiet_steps_too(steps):
    """The exact distance of the last record's quadratic chain, shifts at every step, is below the bound."""
    share, given = 0.02, spec(0.02, "cyclic", steps=4 * steps)
    c, s, tau, apart, variance = 0.8, 0.4 / 5, 0.05, 0.0, 0.0
    for k in range(4 * steps):
        apart, variance = c * apart + (s if k % 4 == 3 else 0.0) + 2 * share * tau, c * c * variance + tau * tau
    assert apart / math.sqrt(variance) <= mu("shifted.cyclic", given)
    assert mu("shifted.cyclic", spec(None, "cyclic", steps=4 * steps)) < mu("shifted.cyclic", given)


def test_bounds_that_do_not_take_roundings_are_left_out():
    assert guarantee("hidden-state.full", spec(None, step=0.1))
    assert "roundings" in refusal("hidden-state.full", spec(0.1, step=0.1))
    no_contraction = spec(0.1).with_values({"problem.strong_convexity": None, "problem.smoothness": None})
    assert mu("composition.gaussian", no_contraction) == pytest.approx(
        mu("composition.gaussian", spec(None)) + 0.2 * math.sqrt(30)
    )


def test_a_rounding_where_it_means_nothing_is_refused():
    stated = spec(0.1).to_dict()
    stable = stated["algorithm"] | {"noise": {"kind": "stable", "alpha": 1.5, "scale": 1.0}}
    with pytest.raises(InputError, match=r"rounding to be absent but for gaussian noise.*stable"):
        Spec.from_dict(stated | {"algorithm": stable})
    with pytest.raises(InputError, match="rounding"):
        spec(-1.0)


def averaged(rounding, scheme="full", law="gaussian", steps=12, **extra):
    given = spec(rounding, scheme, steps).to_dict()
    average = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": law, "scale": 0.3}}
    return Spec.from_dict(given | {"view": "average", "average": average} | extra)


@pytest.mark.parametrize("scheme", ["full", "cyclic"])
def test_an_average_moves_as_far_as_coupled_chains_that_round_apart(scheme):
    """Steps rounded up on D and down on D', the record at its worst place: the real recursion, and one spacing."""
    share, steps, c, tau = 0.01, 12, 0.8, 0.05
    s = 0.4 / (20 if scheme == "full" else 5)
    worst = 0.0
    for place in range(4):
        z, total = 0.0, 0.0
        for k in range(steps):
            z = c * z + (s if scheme == "full" or k % 4 == place else 0.0) + 2 * share * tau
            total += z / steps
        worst = max(worst, total)
    exact = (worst + 2.0**-32) / 0.3  # a noise of .3 has 2^31 spacings of 2^-32 at most
    assert exact <= mu("average.coupling", averaged(share, scheme)) <= exact * (1 + 1e-9)
    assert mu("average.coupling", averaged(None, scheme)) < mu("average.coupling", averaged(0.0, scheme)) < exact


def test_an_average_on_random_batches_counts_roundings_in_every_value():
    """Twelve coins of rate 1/4, all 4,096 outcomes: the mean of Gaussian deltas, each move longer by the roundings."""
    share, steps, c, s, tau, scale = 0.02, 6, 0.8, 0.4 / 5, 0.05, 0.3
    found = guarantee("average.random-batches", averaged(share, "without-replacement", steps=steps))
    weights = [sum(c ** (t - k) for t in range(k, steps)) / steps for k in range(steps)]
    rounding = sum(2 * share * tau * weight for weight in weights)
    for epsilon in (0.05, 0.3):
        exact = 0.0
        for coins in itertools.product((0, 1), repeat=steps):
            move = sum(s * w * b for w, b in zip(weights, coins, strict=True)) + rounding
            chance = math.prod(0.25 if b else 0.75 for b in coins)
            exact += chance * GaussianDP(move / scale).delta(epsilon)
        assert exact <= found.delta(epsilon) <= 1.05 * exact + 1e-12


@pytest.mark.parametrize("name", ["composition.gaussian", "composition.kept"])
def test_kept_iterates_pay_for_roundings_at_every_step(name):
    seen = [Spec.from_dict(spec(share).to_dict() | {"view": "all-iterates"}) for share in (None, 0.1)]
    assert mu(name, seen[1]) == pytest.approx(mu(name, seen[0]) + 0.2 * math.sqrt(30))


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "specs").glob("*.json"))


def rounded_examples():
    """Example specs of chains that may state a rounding, without it and with the default one."""
    for path in EXAMPLES:
        given = json.loads(path.read_text("utf-8"))
        algorithm = given.get("algorithm", {})
        if algorithm.get("kind") == "noisy-gradient" and algorithm["noise"]["kind"] == "gaussian":
            stated = given | {"algorithm": algorithm | {"rounding": ROUNDING}}
            yield path.stem, Spec.from_dict(given), Spec.from_dict(stated)


def test_the_default_grid_costs_half_a_percent_of_epsilon_at_most_over_all_examples():
    """By each theorem that takes roundings into account, for every example it applies to."""
    compared = {}
    for name, plain, stated in rounded_examples():
        delta = plain.delta or 1e-6
        for theorem in sorted(ROUNDED):
            with_rounding = evaluate(theorem_named(theorem), stated)
            if isinstance(with_rounding, Bound):
                first = evaluate(theorem_named(theorem), plain)
                epsilons = [one.guarantee.epsilon(delta) for one in (first, with_rounding)]
                assert epsilons[0] < epsilons[1] <= 1.005 * epsilons[0], (name, theorem, epsilons)
                compared[name, theorem] = epsilons[1] / epsilons[0] - 1.0
    assert len(compared) >= 30
    # The largest is of a chain with many quiet steps: a grid of 2^-20 would cost it more.
    worst = max(compared, key=compared.__getitem__)
    assert 16 * compared[worst] > 0.005, worst
    assert {theorem for _, theorem in compared} == ROUNDED
