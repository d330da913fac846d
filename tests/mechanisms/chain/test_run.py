"""A run is reproducible, indifferent to how it is cut up, inside its ball, and refuses what does not fit its spec."""

from pathlib import Path

import jax
import numpy as np
import pytest

from sordino.core.spec import Scheme, read_spec
from sordino.core.validate import InputError
from sordino.mechanisms import KeptIterates, SeededRandomness, run
from sordino.mechanisms.chain import run as running
from sordino.mechanisms.chain.kernel import RowReader
from sordino.models.families.classification import Logistic
from tests.mechanisms.specs import chain_spec

SCHEMES = list(Scheme)
# Schemes whose batches differ in kind: all records, a fixed order, a size by chance. Others are with the slow tests
# where a second parameter is tried that no scheme knows of.
KINDS = (Scheme.FULL, Scheme.CYCLIC, Scheme.POISSON)


def crossed(first, *others):
    """Every scheme with the first value, those of `KINDS` with the others as well; the rest is slow."""
    return [
        pytest.param(scheme, value, marks=() if value == first or scheme in KINDS else pytest.mark.slow)
        for value in (first, *others)
        for scheme in SCHEMES
    ]


def iterates(problem, spec, seed=1, **options):
    return run(spec, problem.model, problem.rows, problem.target, SeededRandomness(seed), **options).iterates


@pytest.mark.parametrize(("scheme", "noise"), crossed("gaussian", "stable"))
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(quadratic, scheme, noise):
    described = {"kind": noise, "scale": 0.1} | ({"alpha": 1.5} if noise == "stable" else {})
    spec = quadratic.spec(scheme, 37, 3, noise=described, start={"kind": "gaussian", "scale": 1.0})
    np.testing.assert_array_equal(iterates(quadratic, spec), iterates(quadratic, spec))
    assert not np.isin(iterates(quadratic, spec, seed=2), iterates(quadratic, spec)).any()


@pytest.mark.every(2)
@pytest.mark.parametrize(("scheme", "keep"), crossed({"burn_in": 5, "thin": 4}, "last", "all"))
def test_the_result_does_not_depend_on_the_blocks_of_steps(quadratic, scheme, keep):
    noise = {"kind": "stable", "alpha": 1.7, "scale": 0.1}
    spec = quadratic.spec(scheme, 37, 3, keep=keep, noise=noise)
    whole = iterates(quadratic, spec)
    # Each length is a program of its own; single steps for one scheme of each kind.
    for length in (1, 8) if scheme in KINDS and keep not in ("last", "all") else (8,):
        # The kernel is compiled for each length, so sums may be rounded differently; the draws are the same.
        np.testing.assert_allclose(iterates(quadratic, spec, steps_per_block=length), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "reader"), [("full", RowReader(64, False)), ("poisson", RowReader(48, True, False, 3))]
)
def test_the_result_does_not_depend_on_how_many_rows_and_chains_are_read_at_once(scheme, reader, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.choice([-1.0, 1.0], 300)
    spec = chain_spec(300, 4, chains=7, batch={"scheme": scheme} | ({} if scheme == "full" else {"size": 150}))
    whole = run(spec, Logistic(), X, y, SeededRandomness(0)).iterates
    monkeypatch.setattr(running, "row_reader", lambda *_: reader)
    np.testing.assert_allclose(run(spec, Logistic(), X, y, SeededRandomness(0)).iterates, whole, rtol=1e-5, atol=1e-6)


def test_one_chain_follows_the_formula_step_by_step():
    """Clipped logistic regression, recomputed in NumPy from the same Gaussians."""
    from sordino.mechanisms import Purpose

    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(6, 3)), rng.choice([-1.0, 1.0], 6)
    spec = chain_spec(6, 3, batch={"scheme": "cyclic", "size": 4}, clipping={"kind": "norm", "bound": 0.5})
    # The same bits at another scale are the same Gaussians, rounded to another lattice.
    noise = SeededRandomness(9).whole_gaussians(Purpose.NOISE, 0, 20, np.full(1, 2.0**45), 3) * -(2.0**-45)
    theta = np.zeros(3)
    for k in range(20):
        batch = slice(0, 4) if k % 2 == 0 else slice(4, 6)
        gradients = -(y[batch] / (1.0 + np.exp(y[batch] * (X[batch] @ theta))))[:, None] * X[batch]
        gradients *= np.minimum(1.0, 0.5 / np.linalg.norm(gradients, axis=1))[:, None]
        theta = theta - 0.1 * (gradients.sum(0) / 4 + 0.2 * theta) + 0.1 * noise[k]
    found = run(spec, Logistic(weight_decay=0.2), X, y, SeededRandomness(9)).iterates[0]
    np.testing.assert_allclose(found, theta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", [{"kind": "point", "values": [30.0, 40.0]}, {"kind": "gaussian", "scale": 9.0}])
def test_iterates_stay_in_the_ball_exactly(quadratic, start):
    radius = 0.7
    projection = {"kind": "ball", "radius": radius}
    noise = {"kind": "stable", "alpha": 1.1, "scale": 1.0}
    spec = quadratic.spec(Scheme.FULL, 30, 200, keep="all", start=start, projection=projection, noise=noise)
    lengths = np.linalg.norm(np.asarray(iterates(quadratic, spec), np.float64), axis=-1)
    assert lengths.max() <= radius
    assert np.mean(lengths > 0.999 * radius) > 0.3


def test_kept_iterates_are_those_of_the_whole_chain(quadratic):
    every = iterates(quadratic, quadratic.spec(Scheme.RESHUFFLED, 40, 2, keep="all"))
    assert every.shape == (2, 40, 2)
    last = iterates(quadratic, quadratic.spec(Scheme.RESHUFFLED, 40, 2))
    np.testing.assert_allclose(last, every[:, -1], rtol=1e-5, atol=1e-6)
    thinned = run(
        quadratic.spec(Scheme.RESHUFFLED, 40, 2, keep={"burn_in": 6, "thin": 7}),
        quadratic.model,
        quadratic.rows,
        quadratic.target,
        SeededRandomness(1),
        steps_per_block=8,
    )
    assert isinstance(thinned, KeptIterates)
    assert list(thinned.spec.algorithm.kept_iterates(thinned.spec.view)) == [7, 14, 21, 28, 35]
    np.testing.assert_allclose(thinned.iterates, every[:, [6, 13, 20, 27, 34]], rtol=1e-5, atol=1e-6)


def test_more_rows_than_n_run_under_add_remove_only(quadratic):
    """Under add-remove n is a public constant and the data may have one row more; the divisor stays n."""
    more = np.vstack([quadratic.rows, [[0.0, 0.0]]])
    target = np.append(quadratic.target, 0.0)
    spec = quadratic.spec(Scheme.FULL, 10, 2)
    with pytest.raises(InputError, match="number of rows"):
        run(spec, quadratic.model, more, target, SeededRandomness(1))
    public = spec.with_values({"relation": "add-remove"})
    grown = run(public, quadratic.model, more, target, SeededRandomness(1)).iterates
    np.testing.assert_allclose(grown, iterates(quadratic, spec), rtol=1e-6)  # a row of zeros adds nothing to the sum


@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        (np.zeros((5, 3)), np.zeros(5), "problem.dim"),
        (np.zeros((4, 2)), np.zeros(4), "number of rows"),
        (np.zeros((5, 2)), np.zeros(4), "target"),
        (np.zeros(5), np.zeros(5), "features"),
        (np.full((5, 2), np.nan), np.zeros(5), "finite"),
        (np.zeros((5, 2)), np.array([0, 0, 0, 0, np.inf]), "finite"),
        (np.array([["a", "b"]] * 5), np.zeros(5), "features"),
    ],
)
def test_rows_that_do_not_fit_are_refused_without_showing_them(quadratic, rows, target, message):
    with pytest.raises(InputError, match=message) as refused:
        run(quadratic.spec(Scheme.FULL, 3, 1), quadratic.model, rows, target, SeededRandomness(0))
    assert "array" not in str(refused.value)


def test_other_kinds_of_specs_are_refused(quadratic):
    described = Path(__file__).parents[3] / "examples" / "specs" / "posterior-bounded.json"
    for spec in (read_spec(described), str(described)):
        with pytest.raises(InputError, match="spec"):
            run(spec, quadratic.model, quadratic.rows, quadratic.target, SeededRandomness(0))


def test_a_spec_that_claims_a_stronger_regulariser_than_the_model_has_is_refused(quadratic):
    def claiming(convexity, smoothness):
        claim = {"strong_convexity": convexity, "smoothness": smoothness}
        return quadratic.spec(Scheme.FULL, 3, 1).with_values({"problem.regulariser": claim})

    assert iterates(quadratic, claiming(0.2, 0.2)).shape == (1, 2)
    assert iterates(quadratic, claiming(0.1, 0.3)).shape == (1, 2)
    with pytest.raises(InputError, match="strong_convexity"):
        iterates(quadratic, claiming(0.21, 0.3))
    with pytest.raises(InputError, match="smoothness"):
        iterates(quadratic, claiming(0.1, 0.1))


def test_double_precision_where_jax_has_it(quadratic):
    with jax.enable_x64(True):
        wide = iterates(quadratic, quadratic.spec(Scheme.POISSON, 20, 3))
    assert wide.dtype == np.float64
    assert iterates(quadratic, quadratic.spec(Scheme.POISSON, 20, 3)).dtype == np.float32
