"""Training runs: the noise, the clip, the divisor and the batches are those of the spec, and nothing is drawn twice."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sordino import InputError, Training
from sordino.mechanisms import Checkpoint, Purpose, SecureRandomness, SeededRandomness
from sordino.mechanisms.networks.training import train
from sordino.noise.lattice import lattice_exponent
from tests.mechanisms.specs import training_spec
from tests.noise.released import Floating

ROWS, DIM = 12, 4
START = {"w": jnp.zeros(DIM)}
X = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
Y = X @ np.arange(DIM).astype(np.float32)
CLIP = 0.25
# In whole numbers contributions are shortened to 2^-11 less than the clip.
LOSS = ROWS * CLIP * 2.0**-11


def loss(params, example):
    x, y = example
    return 0.5 * (x @ params["w"] - y) ** 2


def nothing(params, example):
    return 0.0 * jnp.sum(params["w"]) * example[1]


def pull(params, example):
    """A constant pull along one axis, so that sums are counts."""
    return -CLIP * params["w"][0] + 0.0 * example[1]


def described(rounds=4, **more):
    return training_spec(ROWS, CLIP, **{"rounds": rounds, "noise_multiplier": 2.0, **more})


def watching(**more):
    return Training(optax.sgd(1.0), watch=lambda tree: tree["w"], microbatch=5, **more)


def by_hand(params, rows):
    residual = rows[0] @ params - rows[1]
    gradients = residual[:, None] * rows[0]
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1.0, CLIP / lengths)).sum(axis=0)


def gaussians(seed, steps, exact=True):
    """Standard noise of a run; on the lattice it is what was drawn in spacings over its scale in spacings."""
    source = SeededRandomness(seed)
    if not exact:
        return np.asarray(source.gaussians(Purpose.NOISE, 0, steps, (DIM,), jnp.float32))
    spacing = 2.0 ** lattice_exponent(CLIP, 2**18, 2.0 * CLIP)
    drawn = source.whole_gaussians(Purpose.NOISE, 0, steps, np.full(1, 2.0 * CLIP / spacing), DIM)
    return drawn * spacing / (2.0 * CLIP)


@pytest.mark.parametrize("source", [SeededRandomness, Floating])
def test_a_step_is_the_clipped_sum_plus_the_stated_noise_over_the_public_divisor(source):
    """Skipped clips, halved noise and a divisor that is read off the batch all fail here."""
    spec = described(rounds=2)
    for rows in (ROWS, ROWS - 1):
        found = train(spec, loss, START, (X[:rows], Y[:rows]), source(3), watching())
        assert found.exact is (source is SeededRandomness)
        noise = 2.0 * CLIP * gaussians(3, 2, found.exact)
        theta = np.zeros(DIM)
        for k in range(2):
            noised = by_hand(theta, (X[:rows], Y[:rows])) + noise[k]
            np.testing.assert_allclose(found.watched[k], noised, rtol=1e-5, atol=LOSS)
            theta = theta - noised / ROWS
        np.testing.assert_allclose(found.params["w"], theta, rtol=1e-5, atol=LOSS)


def test_hidden_batches_are_divided_by_the_public_size_whatever_was_drawn():
    """A divisor that is the real number of records in a batch, or of rows, fails here."""
    spec = described(rounds=5, sampling={"scheme": "poisson", "size": 4}, noise_multiplier=1e-9)
    training = Training(optax.sgd(1.0), watch=lambda tree: tree["w"], keep=(1, 2, 3, 4, 5), microbatch=5)
    rows = X[:-1], Y[:-1]
    found = train(spec, pull, START, rows, SeededRandomness(1), training)
    moves = np.diff([0.0, *(one["w"][0] for one in found.kept)])
    np.testing.assert_allclose(moves, -found.watched[:, 0] / 4, rtol=1e-5)
    assert len(set(np.rint(found.watched[:, 0] / CLIP))) > 1


@pytest.mark.parametrize("scheme", ["poisson", "random-allocation"])
def test_batches_of_any_size_are_used_whole(scheme):
    spec = described(rounds=6, sampling={"scheme": scheme, "size": 4}, noise_multiplier=1e-9)
    counted = Training(optax.sgd(0.0), watch=lambda tree: tree["w"], microbatch=5)
    sizes = train(spec, pull, START, (X, Y), SeededRandomness(1), counted).watched[:, 0] / -CLIP
    np.testing.assert_allclose(sizes, np.rint(sizes), atol=1e-3)
    assert len(set(np.rint(sizes))) > 1
    if scheme == "random-allocation":
        np.testing.assert_allclose([sizes[:3].sum(), sizes[3:].sum()], ROWS, atol=1e-2)


class Stopped(Exception):
    pass


def stop_at(step, _):
    if step == 4:
        raise Stopped


MODES = {
    "poisson batches": {"scheme": "poisson", "size": 4},
    "random allocation": {"scheme": "random-allocation", "size": 4},
}


@pytest.mark.every(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_was_stopped_goes_on_to_the_same_weights_and_draws_no_noise_twice(mode, tmp_path):
    spec = described(rounds=6, sampling=MODES[mode])
    training = Training(optax.adam(0.1), average=0.9, watch=lambda tree: tree["w"], keep=(2, 5), microbatch=5)
    path, seen = tmp_path / "checkpoint", []

    def run(**extra):
        return train(spec, loss, START, (X, Y), SeededRandomness(7), training, **extra)

    whole = run()
    with pytest.raises(Stopped):
        run(checkpoint=Checkpoint(path, 0.0), progress=stop_at)
    found = run(checkpoint=Checkpoint(path, 0.0), progress=lambda step, _: seen.append(step))
    assert seen == [4, 5, 6]
    assert not path.exists()
    np.testing.assert_array_equal(found.params["w"], whole.params["w"])
    np.testing.assert_array_equal(found.averaged["w"], whole.averaged["w"])
    np.testing.assert_array_equal(found.watched, whole.watched)
    np.testing.assert_array_equal(found.kept[1]["w"], whole.kept[1]["w"])


def test_a_secure_run_that_was_stopped_goes_on_with_its_own_key(tmp_path):
    """The noise of a step that was made before the stop is not drawn again, that of others is new in every run."""
    spec, path = described(rounds=6), tmp_path / "checkpoint"

    def run(**extra):
        return train(spec, nothing, START, (X, Y), SecureRandomness(), watching(), **extra).watched

    with pytest.raises(Stopped):
        run(checkpoint=Checkpoint(path, 0.0), progress=stop_at)
    held = path.read_bytes()
    found = []
    for _ in range(2):
        path.write_bytes(held)
        path.chmod(0o600)
        found.append(run(checkpoint=Checkpoint(path, 0.0)))
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) == found[0].size
    assert not np.isin(run(), found[0]).any()


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    spec, path = described(rounds=3), tmp_path / "checkpoint"

    def run(rows, **extra):
        train(spec, loss, START, rows, SeededRandomness(7), watching(), checkpoint=Checkpoint(path, 0.0), **extra)

    with pytest.raises(ZeroDivisionError):
        run((X, Y), progress=lambda *_: 1 // 0)
    with pytest.raises(InputError, match="use their noise twice"):
        run((X + 1, Y))


def test_what_does_not_fit_is_refused():
    rows = (X, Y)
    with pytest.raises(InputError, match="clipped gradients"):
        train(described(query="gradients"), loss, START, rows, SeededRandomness(0), watching())
    with pytest.raises(InputError, match=r"algorithm\.records"):
        train(described(relation="replace-one"), loss, START, (X[:3], Y[:3]), SeededRandomness(0), watching())
    with pytest.raises(InputError, match="first axis"):
        train(described(), loss, START, (X, Y[:3]), SeededRandomness(0), watching())
    with pytest.raises(InputError, match="init and update"):
        Training(0.1)
