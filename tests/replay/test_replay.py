"""Replay itself: it measures what is known, finds every way in which runs can differ, and no noise goes around it."""

import ast
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sordino
from sordino.auditing.replay.plan import Planned, compare, planned_calls
from sordino.auditing.replay.port import Recorder
from sordino.core.spec import read_spec
from sordino.noise.lattice import Total
from sordino.noise.port import CheckedSum, ExactDraws, SumNoise
from sordino.noise.randomness import Law, NoisedCall, Purpose
from tests.accounting.described import described
from tests.mechanisms.specs import rounds_spec

ROOT = Path(sordino.__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples" / "specs"


def rounds(steps=1, multiplier=2.0):
    run = {"steps": steps, "noise_multiplier": multiplier, "damping": 10.0}
    return rounds_spec("message-passing", 10, view="all-iterates", **run)


def output(kind, scale, dim=1):
    run = {"lipschitz": 3.0, "strong_convexity": 2.0, "tolerance": 0.25, "dim": dim}
    noise = {"kind": kind, "scale": scale}
    return described("output-perturbation", "replace-one", "posterior-parameters", noise=noise, **run)


def replayed(spec, first, second, seed=4):
    """`first` and `second` run on two tables; both take a function that gives randomness."""
    recorder = Recorder()
    recording = recorder.record(first, seed)
    return compare(spec, recording, recorder.replay(recording, second))


def sums_of(values, scale=4.0, **left):
    """A run of one noised sum of whole numbers of 1/4."""

    def run(fresh):
        sums = np.asarray(values, np.int64)
        return {"answer": SumNoise.of(fresh(), len(sums)).noised([CheckedSum(sums, -2, 1.0, 1.0, scale)]), **left}

    return run


def test_shifts_of_whole_sums_are_exact():
    """At 2^61 a float would hold nothing of a difference of 3."""
    found = replayed(rounds(), sums_of([2**61, 5]), sums_of([2**61 + 3, 1]))
    (shift,) = found.shifts
    assert shift.realised == pytest.approx(math.hypot(3 / 4, 4 / 4) / 4.0, rel=1e-14)
    assert shift.planned == 0.5
    assert shift.resolution == 0.0
    assert found.faults == ()
    assert found.total == (Law.GAUSSIAN, pytest.approx(shift.realised), 0.5)


def test_a_shift_above_its_plan_is_an_excess():
    assert replayed(rounds(), sums_of([0]), sums_of([8])).holds()
    found = replayed(rounds(), sums_of([0]), sums_of([9]))
    assert not found.holds()
    assert found.faults == ()
    assert found.excesses()[1].ratio == pytest.approx(9 / 8)


def test_the_resolution_of_single_precision_is_allowed_and_no_more():
    @jax.jit
    def kernel(total):
        return recorder.added(Total(total, jnp.zeros_like(total)), jnp.float32(1.0), jnp.zeros(1, jnp.float32))

    recorder = Recorder()
    found = []
    for apart in (2.0 + 2.0**-20, 2.0 + 2.0**-18):
        one, two = (lambda fresh, at=at: {"left": np.asarray(kernel(jnp.float32([at])))} for at in (8.0, 8.0 + apart))
        recording = recorder.record(one, 1)
        found.append(compare(rounds(multiplier=0.5), recording, recorder.replay(recording, two)))
    assert found[0].shifts[0].resolution == 2.0**-20
    assert found[0].holds()
    assert not found[1].holds()


def test_laplace_shifts_are_summed_and_output_plans_hold_the_tolerance():
    def run(value):
        return lambda fresh: {"answer": ExactDraws.of(fresh()).laplace(value, 4.0)}

    found = replayed(output("laplace", 4.0), run(10), run(8))
    assert found.shifts[0].realised == 0.5
    assert found.shifts[0].planned == pytest.approx(2.0 / 4.0)
    assert found.total == (Law.LAPLACE, 0.5, found.shifts[0].planned)

    def several(values):
        call = NoisedCall(Law.LAPLACE, np.asarray(values), np.array([4.0, 8.0]))
        return lambda fresh: {"answer": fresh().port.answer(call, lambda: np.zeros(2))}

    found = replayed(output("laplace", 4.0), several([1.0, 1.0]), several([0.0, 3.0]))
    assert found.shifts[0].realised == 1.0 / 4.0 + 2.0 / 8.0


def test_other_calls_shapes_scales_and_releases_are_faults():
    one = sums_of([1, 2])

    def twice(fresh):
        sums_of([1, 2])(fresh)
        return sums_of([1, 2])(fresh)

    def laplace(fresh):
        return {"answer": ExactDraws.of(fresh()).laplace(3, 1.0)}

    faults = {
        "2 noised calls where there were 1": twice,
        "noised call 1 has shape (3,) where it was (2,)": sums_of([1, 2, 3]),
        "noised call 1 has another scale": sums_of([1, 2], scale=4.5),
        "noised call 1 has laplace noise where it was gaussian": laplace,
        "count differs in what leaves": sums_of([1, 2], count=3),
        "0 noised calls where there were 1": lambda fresh: {"answer": np.zeros(2)},
    }
    for said, other in faults.items():
        found = replayed(rounds(), one, other)
        assert said in found.faults
        assert not found.holds()
    assert "2 noised calls where the spec describes 1" in replayed(rounds(), twice, twice).faults
    assert "noised call 1 has laplace noise where the spec says gaussian" in replayed(rounds(), laplace, laplace).faults


def test_less_noise_than_bound_times_multiplier_is_a_fault():
    """Wherever the pair moves the sum: a shift of 0 tells nothing of the scale."""

    def run(scale, bound):
        call = NoisedCall(Law.GAUSSIAN, np.zeros(3), scale, bound=bound)
        return lambda fresh: {"answer": fresh().port.answer(call, lambda: np.zeros(3))}

    for scale, bound, enough in [
        (4.0, None, True),
        (3.9, None, False),
        (0.4, 0.1, True),
        (4.0, 1.1, False),
        (np.array([4.0, 4.0 / math.sqrt(2.0), 4.0]), None, True),
        (np.array([4.0, 2.7, 4.0]), None, False),
    ]:
        found = replayed(rounds(), run(scale, bound), run(scale, bound))
        assert found.faults == (() if enough else ("noised call 1 has less noise than the spec says",))


@pytest.mark.parametrize("other", [0.0, -0.0, math.nan])
def test_releases_are_compared_to_the_last_bit(other):
    found = replayed(rounds(), sums_of([1], left=np.array([0.0])), sums_of([1], left=np.array([other])))
    same = not math.isnan(other) and math.copysign(1.0, other) == 1.0
    assert found.faults == (() if same else ("left differs in what leaves",))


def test_noise_that_goes_around_the_port_shows_in_what_leaves():
    def run(fresh):
        source = fresh()
        noise = source.generator(Purpose.NOISE)
        source.port.answer(NoisedCall(Law.GAUSSIAN, np.zeros(1), 4.0), lambda: np.zeros(1))
        return {"answer": noise.standard_normal(2)}

    assert replayed(rounds(), run, run).faults == ("answer differs in what leaves",)


def test_public_draws_and_batches_are_the_same_in_a_replay():
    def run(fresh):
        drawn = []
        for source in (fresh(), fresh()):
            drawn += [source.generator(purpose).random(2) for purpose in (Purpose.BATCHES, Purpose.START)]
            drawn += [np.asarray(source.gaussians(Purpose.DRAWS, 0, 1, (2,), np.float32))[0]]
        source.port.answer(NoisedCall(Law.GAUSSIAN, np.zeros(1), 4.0), lambda: np.zeros(1))
        return {"answer": np.concatenate(drawn)}

    recorder = Recorder()
    recording = recorder.record(run, 7)
    assert compare(rounds(), recording, recorder.replay(recording, run)).holds()
    assert len(np.unique(recording.left["answer"])) == 12
    assert not np.isin(recorder.record(run, 8).left["answer"], recording.left["answer"]).any()


def test_plans_follow_the_spec():
    several = planned_calls(rounds(3, {"kind": "list", "values": [1.0, 2.0, 4.0]}))
    assert [(one.law, one.bound, one.scale) for one in several] == [
        (Law.GAUSSIAN, bound, 2.0 / bound) for bound in (1.0, 0.5, 0.25)
    ]
    chain = read_spec(EXAMPLES / "cyclic-last-iterate.json")
    eta, tau = (float(one.values(1)[0]) for one in (chain.algorithm.step_size, chain.algorithm.noise.scale))
    kappa = eta * chain.problem.gradient_sensitivity.value / (chain.algorithm.divisor(chain.n) * tau)
    assert planned_calls(chain)[0] == Planned(Law.GAUSSIAN, pytest.approx(kappa))
    several = planned_calls(chain.with_values({"algorithm.chains": 4}))
    assert several[0].bound == pytest.approx(2 * kappa)
    assert planned_calls(read_spec(EXAMPLES / "average-laplace.json"))[-1] == Planned(Law.LAPLACE, None)


# Where streams of noise are opened, and how each meets a statistic.
STREAMS_OF_NOISE = {
    "noise/port.py": "inside calls of the port, and steps of chains, rounds and networks, whose kernels call it",
    "auditing/replay/port.py": "replay, and draws that meet no statistic: does none repeat another",
}
WHERE_THE_PORT_IS = {
    "noise/port.py",
    "mechanisms/chain/kernel.py",
    "mechanisms/rounds.py",
}


def files_with(word, wanted):
    """The files in which some attribute is wanted; only those that have the word are parsed."""
    found = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text)) if word in text else ()
        if any(wanted(node) for node in nodes if isinstance(node, ast.Attribute)):
            found.add(path.relative_to(ROOT).as_posix())
    return found


def test_every_stream_of_noise_is_known():
    """A new one has to go through the port, or to be named as one that cannot be replayed."""
    found = files_with(
        "Purpose.",
        lambda node: (
            node.attr in {"NOISE", "AVERAGE"}
            and isinstance(node.value, ast.Name)
            and node.value.id in {"Purpose", "KeyPurpose"}
        ),
    )
    assert found == set(STREAMS_OF_NOISE)


def test_every_kernel_and_mechanism_calls_the_port():
    found = files_with(
        ".port.",
        lambda node: (
            node.attr in {"answer", "added"} and isinstance(node.value, ast.Attribute) and node.value.attr == "port"
        ),
    )
    assert found == WHERE_THE_PORT_IS
