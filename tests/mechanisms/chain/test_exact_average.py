"""Averages along a chain to the last bit: whole sums, exact noise, moves as counted, and what is refused.

Statistical comparisons have a false-alarm rate of 1e-6 each.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import sordino
from sordino.core.bound import Evidence, floating_point_line
from sordino.core.spec import AverageNoise, Spec
from sordino.core.spec.fields import write_keys
from sordino.core.validate import InputError
from sordino.fitting.gradient_runs import chain_line
from sordino.mechanisms import LipschitzFunction, SeededRandomness, coordinate, parameters, run
from sordino.mechanisms.chain import claims as hidden
from sordino.mechanisms.chain import release as exact_average
from sordino.mechanisms.chain.release import AverageSum
from sordino.models import Domain, Logistic
from sordino.noise.lattice import Lattice
from sordino.noise.port import noised_average
from sordino.noise.randomness import Law, NoisePort, Randomness
from tests.auditing.chains import chain

ALARM = 1e-6
N, WIDTH = 300, 3
MODEL = Logistic(weight_decay=0.1)
GENERATOR = np.random.default_rng(11)
X = GENERATOR.uniform(-0.5, 0.5, (N, WIDTH))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


# More than the default, which does not cover cyclic batches of few records.
STATED = 2.0**-20


def spec(law="gaussian", rounding: float | None = STATED, scale=0.02, relation="replace-one", **algorithm):
    stated = algorithm | ({} if rounding is None else {"rounding": rounding})
    average = {"lipschitz": 1.0, "dim": WIDTH, "noise": {"kind": law, "scale": scale}}
    run = {"steps": 60, "step_size": 1.0, "noise": 0.02, "relation": relation, "view": "average"}
    problem = write_keys(MODEL.problem(N, Domain(WIDTH, 1.0)))
    return chain(**run, algorithm=stated, average=average, **problem).with_values({"delta": 1e-5})


class _Recorder(NoisePort):
    def __init__(self):
        self.calls = []

    def answer(self, call, draw):
        self.calls.append(call)
        return draw()


class _Recorded(SeededRandomness):
    """A seeded source that writes down what is noised on the host."""

    @property
    def port(self):
        return self.__dict__.setdefault("_port", _Recorder())


def noised_call(given: Spec, rows=X, seed=5, **options):
    source = _Recorded(seed)
    release = run(given, MODEL, rows, Y, source, function=parameters(WIDTH), **options)
    (call,) = source.port.calls
    return call, release.averages


def test_sums_of_iterates_are_those_of_fractions():
    """Negative numbers and large ones, in two pieces; the mean is floored once, on finer and coarser lattices."""
    lattice = Lattice(-40, 12)
    values = np.random.default_rng(0).normal(size=(50, 2, 3)) * 500.0
    total = AverageSum((2, 3), 50, lattice)
    total.add(values[:20])
    total.add(values[20:])
    exact = [[sum(Fraction(v) * 2**40 // 1 for v in values[:, c, d].tolist()) for d in range(3)] for c in range(2)]
    for exponent in (-50, -40, -10, 3):
        found = total.mean(exponent)
        for c in range(2):
            for d in range(3):
                assert found[c, d] == Fraction(exact[c][d]) * Fraction(2) ** (-40 - exponent) / 50 // 1
    assert np.all(np.abs(total.mean(-100)) == 2**62)  # cut, where 64 bits do not hold it
    with pytest.raises(InputError, match="kept iterates"):
        AverageSum((1, 1), 2**34 + 1, lattice)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "extra", [{}, {"keep": {"burn_in": 5, "thin": 7}}, {"projection": {"kind": "ball", "radius": 0.3}}]
)
def test_what_is_noised_is_the_average_of_the_iterates(extra):
    given = spec(**extra)
    kept = run(given.with_values({"view": "all-iterates", "average": None}), MODEL, X, Y, SeededRandomness(5)).iterates
    call, averages = noised_call(given)
    assert call.statistic.dtype == np.int64
    # Kept iterates are shown in single precision.
    np.testing.assert_allclose(call.statistic * call.unit, kept.mean(axis=1), atol=2e-7)
    assert np.all(averages / call.unit % 1.0 == 0.0)
    pieces, _ = noised_call(given, steps_per_block=13)
    np.testing.assert_array_equal(pieces.statistic, call.statistic)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_is_whole_numbers_of_the_stated_law(law):
    """20,000 draws on a lattice of 2^30 spacings to the noise, against the law in 40 bins, and in their last bits."""
    noise = AverageNoise(law, 0.7)
    mean = np.full((20_000, 1), 12345, np.int64)
    released = noised_average(mean, Law(noise.kind), noise.scale, noise.exponent, SeededRandomness(3))
    unit = np.ldexp(1.0, noise.exponent)
    assert 2**30 <= 0.7 / unit < 2**31
    drawn = ((released - 12345 * unit) / 0.7).ravel()
    p = stats.norm.cdf(drawn) if law == "gaussian" else stats.laplace.cdf(drawn)
    assert stats.chisquare(np.bincount((p * 40).astype(int), minlength=40)).pvalue > ALARM
    low = (released.ravel() / unit).astype(np.int64) & 15
    assert stats.chisquare(np.bincount(low, minlength=16)).pvalue > ALARM


@pytest.mark.every(2)
@pytest.mark.parametrize("projection", [{"kind": "ball", "radius": 0.2}, None])
def test_neighbours_move_the_average_no_further_than_counted(projection):
    """The worst label of one record; both tables with the same noise of the chain."""
    given = spec(projection=projection) if projection else spec()
    moved = X.copy()
    moved[0] = 0.55 / np.sqrt(WIDTH) * np.ones(WIDTH)
    moved[0] *= 1.0 / np.linalg.norm(moved[0])
    other = moved.copy()
    other[0] = -moved[0]
    first, _ = noised_call(given, moved)
    second, _ = noised_call(given, other)
    apart = first.unit * np.linalg.norm((first.statistic - second.statistic).ravel())
    bound = next(b for b, _ in sordino.accounting.explain(given, 1e-5).bounds if b.theorem == "average.coupling")
    mu = bound.guarantee.mu
    # On the ball both chains are pressed against its edge, and one record hardly shows.
    assert (0.2 if projection is None else 0.02) * mu < apart / 0.02 <= mu


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_default_rounding_costs_less_than_half_a_percent(law):
    real, rounded = (sordino.accounting.explain(spec(law, share), 1e-5).epsilon for share in (None, hidden.ROUNDING))
    assert real < rounded < 1.005 * real


def test_a_fit_says_that_it_is_proved_and_one_without_a_rounding_does_not():
    release = sordino.fit_chain(spec(), MODEL, X, Y, epsilon=3.0, random_state=0)
    line = floating_point_line(release.bound)
    assert line.evidence is Evidence.PROVED
    assert line.reason == exact_average.COVERED
    assert release.arrays["averages"].shape == (1, WIDTH)
    without = sordino.accounting.explain(spec(rounding=None, scale=0.5), 1e-5)
    assert without.tightest.theorem == "average.coupling"
    assert chain_line(without, MODEL).evidence is Evidence.ASSUMED
    # Averages of iterates that all were seen: covered as every noised sum is.
    seen = spec(rounding=None, scale=1e-6, noise={"kind": "gaussian", "scale": 1.0})
    plan = sordino.accounting.explain(seen, 1e-5)
    assert plan.tightest.theorem.startswith("composition.")
    assert chain_line(plan, MODEL).evidence is Evidence.PROVED


def test_what_is_not_averaged_exactly_is_refused_before_a_row_is_read():
    steep = LipschitzFunction(lambda theta: 0.5 * theta, WIDTH, parameters(WIDTH).lipschitz)
    with pytest.raises(InputError, match="the parameters, or one of them"):
        run(spec(), MODEL, X, Y, SeededRandomness(0), function=steep)
    with pytest.raises(InputError, match="the parameters, or one of them"):
        sordino.fit_chain(spec(), MODEL, X, Y, epsilon=3.0, function=steep, random_state=0)
    with pytest.raises(InputError, match=r"average\.dim"):
        sordino.fit_chain(spec(), MODEL, X, Y, epsilon=3.0, function=coordinate(0, WIDTH), random_state=0)
    with pytest.raises(InputError, match=r"algorithm\.rounding of at least"):
        run(spec(rounding=1e-12), MODEL, X, Y, SeededRandomness(0), function=parameters(WIDTH))
    more = np.concatenate([X, X[:2]]), np.concatenate([Y, Y[:2]])
    clipped = {"clipping": {"kind": "norm", "bound": 0.5}}
    with pytest.raises(InputError, match=r"at most 301, problem\.n and one"):
        run(spec(relation="add-remove", **clipped), MODEL, *more, SeededRandomness(0), function=parameters(WIDTH))


def test_a_source_without_whole_numbers_is_refused():
    class Floating(SeededRandomness):
        @property
        def draws_exactly(self):
            return False

    source: Randomness = Floating(1)
    with pytest.raises(InputError, match="rounding"):
        run(spec(), MODEL, X, Y, source, function=parameters(WIDTH))
