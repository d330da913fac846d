"""Checkpoints of real runs whose digest agrees and whose moment does not: gone on from, or refused in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.core.validate import SordinoError
from sordino.mechanisms import SecureRandomness
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import changed_json
from tests.fuzz.test_checkpoint_file import parts, sealed
from tests.mechanisms.chain.resumable import BLOCK, STEPS, iterates

SCHEMES = ("full", "poisson")
NAME = "run.checkpoint"


class Stopped(Exception):
    """Thrown in the middle of a run."""


def stop(made: int, steps: int) -> None:
    if made >= steps // 2:
        raise Stopped


@pytest.fixture(scope="module", params=SCHEMES)
def stopped(request, tmp_path_factory) -> tuple[str, bytes]:
    """A scheme, and the checkpoint of a run with it that was stopped half-way."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.raises(Stopped):
        iterates(folder, stop, request.param)
    return request.param, (folder / NAME).read_bytes()


def taken_up(folder: Path, scheme: str, content: bytes) -> str | None:
    """What the run was refused with, None if it went on to its end; anything else is raised."""
    path = folder / NAME
    path.write_bytes(content)
    path.chmod(0o600)
    found, said = None, None
    try:
        found = iterates(folder, scheme=scheme)
    except SordinoError as error:
        said = str(error)
    assert said.isprintable() if found is None and said else found is not None and found.shape == (2, STEPS, 3)
    return said


@tried(15, 400)
def test_moments_that_lie_are_gone_on_from_or_refused(stopped, tmp_path, examples):
    scheme, whole = stopped
    header, body = parts(whole)
    assert taken_up(tmp_path, scheme, whole) is None

    moment = {name: header["values"].pop(name) for name in ("step", "randomness")}

    def check(changed: Any) -> None:
        given = json.dumps(header | {"values": header["values"] | changed}).encode()
        taken_up(tmp_path, scheme, sealed(given, body))

    explore(examples, changed_json(moment), check)


def changed(whole: bytes, change) -> bytes:
    header, body = parts(whole)
    values, arrays = header["values"], header["arrays"]
    held: dict[str, np.ndarray] = {}
    at = 0
    for name, layout in arrays.items():
        array = np.frombuffer(body, np.dtype(layout["dtype"]), int(np.prod(layout["shape"])), at).reshape(
            layout["shape"]
        )
        held[name], at = array.copy(), at + array.nbytes
    change(values, held)
    header["arrays"] = {name: {"dtype": one.dtype.str, "shape": list(one.shape)} for name, one in held.items()}
    return sealed(json.dumps(header).encode(), b"".join(one.tobytes() for one in held.values()))


def put(name: str, make) -> Any:
    def change(_: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = make(arrays[name])

    return change


def say(make) -> Any:
    def change(values: dict[str, Any], _: dict[str, np.ndarray]) -> None:
        make(values)

    return change


CHANGES = {
    "iterates of another shape": put("theta", lambda theta: theta[:1]),
    "iterates of another kind": put("theta", lambda theta: theta.astype(np.float32)),
    "iterates that are not finite": put("theta", lambda theta: theta * np.float32(np.nan)),
    "too few kept": put("kept", lambda kept: kept[:, :-1]),
    "too many kept": put("kept", lambda kept: np.concatenate([kept, kept], axis=1)),
    "kept that are not finite": put("kept", lambda kept: kept + np.float32(np.inf)),
    "a step inside a block": say(lambda values: values.update(step=values["step"] + 1)),
    "a step behind the end": say(lambda values: values.update(step=STEPS)),
    "a step far behind": say(lambda values: values.update(step=2**70)),
    "a step that is a truth value": say(lambda values: values.update(step=True)),
    "an earlier step": say(lambda values: values.update(step=values["step"] - BLOCK)),
    "another seed": say(lambda values: values.update(randomness={"kind": "seeded", "seed": 6})),
    "no randomness": say(lambda values: values.update(randomness=None)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_does_not_fit_the_run_is_refused(stopped, tmp_path, what):
    scheme, whole = stopped
    said = taken_up(tmp_path, scheme, changed(whole, CHANGES[what]))
    assert said is not None
    assert "cut short or changed" in said or "same seed" in said


@pytest.mark.parametrize("key", ["", "00", "zz" * 32, "00" * 31, 7, None])
def test_a_secret_key_is_whole_or_refused(key):
    with pytest.raises((ValueError, TypeError)):
        SecureRandomness().resumed({"kind": "secure", "key": key})


def test_taking_apart_and_putting_together_changes_nothing(stopped):
    """Otherwise the refusals above would be for another reason."""
    _, whole = stopped
    assert changed(whole, lambda *_: None) == whole
