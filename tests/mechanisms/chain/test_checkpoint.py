"""A run that was stopped goes on as if it never had been; a checkpoint that does not belong to it is refused."""

import errno
import os
import stat
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.bound import AVERAGE_LIPSCHITZ, Certificate, Evidence
from sordino.core.spec import Scheme
from sordino.core.validate import InputError
from sordino.mechanisms import (
    Checkpoint,
    CheckpointError,
    LipschitzFunction,
    SecureRandomness,
    SeededRandomness,
    parameters,
    run,
)
from sordino.mechanisms import checkpoint as private_file
from sordino.mechanisms.checkpoint import traced
from sordino.models.families.regression import GaussianLinear
from sordino.models.registry import JaxModel

STABLE = {"kind": "stable", "alpha": 1.7, "scale": 0.1}


class Stopped(Exception):
    """What a test throws in the middle of a run."""


def stop_at(step):
    def told(made, _):
        if made >= step:
            raise Stopped

    return told


def carried_out(problem, spec, path, randomness=None, every=0.0, **options):
    randomness = SeededRandomness(1) if randomness is None else randomness
    options = {"steps_per_block": 4} | options
    return run(
        spec, problem.model, problem.rows, problem.target, randomness, checkpoint=Checkpoint(path, every), **options
    )


def stopped(problem, spec, path, step=16, **options):
    with pytest.raises(Stopped):
        carried_out(problem, spec, path, progress=stop_at(step), **options)
    return path


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("scheme", "keep"),
    [
        *((scheme, {"burn_in": 3, "thin": 2}) for scheme in Scheme),
        *(
            pytest.param(scheme, "last", marks=() if scheme in {Scheme.FULL, Scheme.POISSON} else pytest.mark.slow)
            for scheme in Scheme
        ),
    ],
)
def test_a_resumed_run_has_the_bits_of_the_uninterrupted_one(quadratic, scheme, keep, tmp_path):
    spec = quadratic.spec(scheme, 38, 3, keep=keep, noise=STABLE, start={"kind": "gaussian", "scale": 1.0})
    whole = carried_out(quadratic, spec, tmp_path / "whole").iterates
    path = tmp_path / "cut"
    for step in (0, 4, 16, 32):
        stopped(quadratic, spec, path, step)
    assert 32 <= private_file.read_record(path).values["step"] < 38
    np.testing.assert_array_equal(carried_out(quadratic, spec, path).iterates, whole)
    assert list(tmp_path.iterdir()) == []  # deleted on completion, and nothing left beside it


def test_a_resumed_average_has_the_bits_of_the_uninterrupted_one(quadratic, tmp_path):
    average = {"lipschitz": 1.0, "dim": 2, "noise": {"kind": "gaussian", "scale": 0.1}}
    spec = quadratic.spec(Scheme.POISSON, 30, 3, keep="all").with_values({"average": average, "view": "average"})
    function = {"function": parameters(2)}
    whole = carried_out(quadratic, spec, tmp_path / "whole", **function).averages
    path = stopped(quadratic, spec, tmp_path / "cut", **function)
    np.testing.assert_array_equal(carried_out(quadratic, spec, path, **function).averages, whole)


def test_a_secure_run_goes_on_with_its_key_and_nobody_else_can_read_it(quadratic, tmp_path):
    spec = quadratic.spec(Scheme.POISSON, 38, 3, keep="all", noise=STABLE)
    source = SecureRandomness()
    whole = carried_out(quadratic, spec, tmp_path / "whole", source.resumed(source.held())).iterates
    path = stopped(quadratic, spec, tmp_path / "cut", randomness=source)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    np.testing.assert_array_equal(carried_out(quadratic, spec, path, SecureRandomness()).iterates, whole)


def test_a_checkpoint_of_another_run_is_refused(quadratic, tmp_path):
    spec = quadratic.spec(Scheme.CYCLIC, 38, 3)
    path = stopped(quadratic, spec, tmp_path / "cut")
    before = path.read_bytes()
    rows = quadratic.rows.copy()
    rows[0, 0] += 1e-9

    def resumed(with_spec=spec, model=quadratic.model, given=quadratic.rows, seed=1, block=4):
        source = SeededRandomness(seed)
        return run(
            with_spec, model, given, quadratic.target, source, checkpoint=Checkpoint(path), steps_per_block=block
        )

    for changed, error, words in (
        ({"block": 8}, CheckpointError, "another block; give the steps_per_block"),
        ({"with_spec": quadratic.spec(Scheme.CYCLIC, 39, 3)}, CheckpointError, "another spec; give the spec"),
        ({"model": GaussianLinear(weight_decay=0.3)}, CheckpointError, "another model"),
        ({"given": rows}, CheckpointError, "another content.*noise twice"),
        ({"seed": 2}, InputError, "same seed"),
    ):
        with pytest.raises(error, match=words):
            resumed(**changed)
    with pytest.raises(InputError, match="checkpoint's kind"):
        carried_out(quadratic, spec, path, SecureRandomness())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sordino.mechanisms.checkpoint.__version__", "0.0.1")
        with pytest.raises(CheckpointError, match="another sordino; finish the run with the version"):
            resumed()
    assert path.read_bytes() == before


def doubled(factor):
    """Functions of one name that compute different things."""

    def function(theta):
        return factor * theta

    return LipschitzFunction(function, 2, Certificate(AVERAGE_LIPSCHITZ, 3.0, Evidence.DECLARED, "for a test"))


@pytest.mark.parametrize("factors", [(2.0, 3.0), (np.array([1.0, 2.0]), np.array([1.0, 2.5]))], ids=["number", "array"])
def test_an_averaged_function_of_the_same_name_that_computes_something_else_is_refused(quadratic, tmp_path, factors):
    average = {"lipschitz": 3.0, "dim": 2, "noise": {"kind": "gaussian", "scale": 0.1}}
    spec = quadratic.spec(Scheme.POISSON, 30, 3, keep="all").with_values({"average": average, "view": "average"})
    path = stopped(quadratic, spec, tmp_path / "cut", function=doubled(factors[0]))
    with pytest.raises(CheckpointError, match="another function"):
        carried_out(quadratic, spec, path, function=doubled(factors[1]))
    carried_out(quadratic, spec, path, function=doubled(factors[0]))


def squared(factor):
    def loss(theta, x, y):
        return factor * (x @ theta - y) ** 2

    return JaxModel(loss, 2)


@dataclass(frozen=True)
class Another(GaussianLinear):
    """The same fields under another name."""


@pytest.mark.parametrize(
    ("own", "other"), [(squared(0.5), squared(0.6)), (GaussianLinear(), Another())], ids=["one name", "one value"]
)
def test_a_model_that_computes_something_else_or_is_of_another_kind_is_refused(quadratic, tmp_path, own, other):
    spec, given = quadratic.spec(Scheme.CYCLIC, 38, 3), (quadratic.rows, quadratic.target)
    options = {"checkpoint": Checkpoint(tmp_path / "cut", 0.0), "steps_per_block": 4}
    with pytest.raises(Stopped):
        run(spec, own, *given, SeededRandomness(1), progress=stop_at(16), **options)
    with pytest.raises(CheckpointError, match="another model"):
        run(spec, other, *given, SeededRandomness(1), **options)
    run(spec, own, *given, SeededRandomness(1), **options)


@pytest.mark.skipif(os.name != "posix", reason="owners of files are POSIX's")
def test_somebody_elses_checkpoint_is_refused(quadratic, tmp_path, monkeypatch):
    """Whoever made it has the key of the noise."""
    spec = quadratic.spec(Scheme.CYCLIC, 38, 3)
    path = stopped(quadratic, spec, tmp_path / "cut")
    monkeypatch.setattr("os.geteuid", lambda: os.stat(path).st_uid + 1)
    with pytest.raises(CheckpointError, match="belongs to another user"):
        carried_out(quadratic, spec, path)


def test_a_checkpoint_that_was_cut_short_or_changed_is_refused(quadratic, tmp_path):
    """At every twentieth length, and with a bit flipped at every twentieth place."""
    spec = quadratic.spec(Scheme.POISSON, 38, 3)
    path = stopped(quadratic, spec, tmp_path / "cut")
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(0, len(whole), len(whole) // 20)]
    for place in range(0, len(whole), len(whole) // 20):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        damaged.append(bytes(flipped))
    damaged.append(whole + b"\0")
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="was cut short or changed") as refused:
            carried_out(quadratic, spec, path)
        assert str(refused.value).count(".") - str(path).count(".") == 2
    path.write_bytes(whole)
    carried_out(quadratic, spec, path)


def test_a_checkpoint_that_others_can_read_is_refused(quadratic, tmp_path):
    spec = quadratic.spec(Scheme.POISSON, 38, 3)
    path = stopped(quadratic, spec, tmp_path / "cut")
    path.chmod(0o640)
    with pytest.raises(CheckpointError, match="owner alone, got permissions 640"):
        carried_out(quadratic, spec, path)
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(CheckpointError, match="read"):
        carried_out(quadratic, spec, link)


def test_a_folder_that_cannot_be_written_is_found_out_before_the_first_step(quadratic, tmp_path):
    steps = []
    with pytest.raises(CheckpointError, match=r"write the checkpoint.*No such file"):
        carried_out(
            quadratic,
            quadratic.spec(Scheme.FULL, 38, 1),
            tmp_path / "absent" / "c",
            progress=lambda *made: steps.append(made),
        )
    assert steps == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [("/dev/full", "No space left"), ("/proc/version", "Permission denied|not permitted|Input/output|Invalid")],
)
def test_a_full_disk_and_a_read_only_one_are_refused_in_one_sentence(quadratic, tmp_path, place, reason, monkeypatch):
    """The file is really written to: to a device that is always full, or to one nobody may write to."""
    if not os.path.exists(place):
        pytest.skip(f"this system has no {place}")
    really_open = os.open
    monkeypatch.setattr(private_file.os, "open", lambda *_: really_open(place, os.O_WRONLY))
    with pytest.raises(CheckpointError, match=rf"write the checkpoint.*({reason}).*; make room there"):
        carried_out(quadratic, quadratic.spec(Scheme.FULL, 38, 1), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fills_up_loses_nothing(quadratic, tmp_path, reason, monkeypatch):
    """From the third write on the disk is full: the run warns and ends as it should, and what was kept stays."""
    spec = quadratic.spec(Scheme.POISSON, 38, 3, keep="all")
    whole = carried_out(quadratic, spec, tmp_path / "whole").iterates
    path, written = tmp_path / "cut", []
    really_settle = os.fsync

    def full(descriptor):
        written.append(descriptor)
        if len(written) > 4:  # a file and its folder for each of the first two
            raise OSError(reason, os.strerror(reason))
        really_settle(descriptor)

    monkeypatch.setattr(private_file.os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="step 4 stays"), pytest.raises(Stopped):
        carried_out(quadratic, spec, path, progress=stop_at(20))
    assert private_file.read_record(path).values["step"] == 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["cut"]
    with pytest.warns(RuntimeWarning, match=os.strerror(reason)):
        ended = carried_out(quadratic, spec, path)
    np.testing.assert_array_equal(ended.iterates, whole)


def test_what_a_crash_left_half_written_is_cleared_away(quadratic, tmp_path):
    """A name with signs that a pattern would read is taken as it is, and a person's own dot-file is not ours."""
    left, other = tmp_path / ".c[1].0123abc_.partial", tmp_path / ".c1.0123abc_.partial"
    own = tmp_path / ".c[1].my-thesis.partial"
    left.write_bytes(b"half")
    other.write_bytes(b"of another run")
    own.write_bytes(b"a person's own")
    stopped(quadratic, quadratic.spec(Scheme.FULL, 38, 1), tmp_path / "c[1]", 4)
    assert {entry.name for entry in tmp_path.iterdir()} == {other.name, own.name, "c[1]"}


def test_progress_counts_up_to_the_end(quadratic):
    told, options = [], {"steps_per_block": 4, "progress": lambda *made: told.append(made)}
    spec, given = quadratic.spec(Scheme.FULL, 10, 1), (quadratic.rows, quadratic.target)
    run(spec, quadratic.model, *given, SeededRandomness(0), **options)
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10)]


POINT = jax.ShapeDtypeStruct((3,), jnp.float32)


def plain(numbers):
    held = jnp.asarray(numbers)
    return lambda x: jnp.sum(held * x)


def inside_jit(numbers):
    held = jnp.asarray(numbers)
    inner = jax.jit(lambda x: jnp.sum(held * x))
    return lambda x: 2.0 * inner(x)


def inside_two_jits(numbers):
    inner = inside_jit(numbers)
    outer = jax.jit(lambda x: inner(x) + 1.0)
    return lambda x: outer(x) ** 2


def of_numpy_inside_jit(numbers):
    held = np.asarray(numbers, np.float32)
    return jax.jit(lambda x: jnp.sum(held * x))


def inside_a_branch(numbers):
    held = jnp.asarray(numbers)
    inner = jax.jit(lambda x: held * x)
    return lambda x: jnp.sum(jax.lax.cond(x[0] > 0.0, inner, lambda x: x, x))


def inside_a_scan(numbers):
    held = jnp.asarray(numbers)
    inner = jax.jit(lambda x: jnp.sum(held * x))
    return lambda x: jax.lax.scan(lambda total, one: (total + inner(one), None), 0.0, x[None])[0]


def in_the_gradient_alone(numbers):
    held = jnp.asarray(numbers)

    @jax.custom_vjp
    def total(x):
        return jnp.sum(x)

    total.defvjp(lambda x: (total(x), None), lambda _, slope: (slope * held,))
    return total


KINDS = [plain, inside_jit, inside_two_jits, of_numpy_inside_jit, inside_a_branch, inside_a_scan, in_the_gradient_alone]


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_holds_other_numbers_is_another_one(kind):
    first = traced(kind([1.0, 2.0, 3.0]), POINT)
    assert traced(kind([1.0, 2.0, 3.0]), POINT) == first
    assert traced(kind([1.0, 2.0, 4.0]), POINT) != first
