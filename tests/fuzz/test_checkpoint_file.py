"""Checkpoints whose digest agrees and whose content does not: it is no signature, so nothing in them is believed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.core.spec import read_spec
from sordino.mechanisms import Checkpoint, CheckpointError
from sordino.mechanisms.checkpoint import _MARK, Keeper, Snapshot, read_record
from sordino.noise.randomness import SeededRandomness
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import changed_bytes, changed_json
from tests.fuzz.watch import read_or_refused

SPEC = read_spec(Path(__file__).parents[2] / "examples" / "specs" / "full-last-iterate.json")
BEGIN = len(_MARK) + 8


def identity(_: bytes) -> dict[str, Any]:
    return {"spec": SPEC.to_dict(), "content": "digest of the rows"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """A checkpoint as a run writes it."""
    path = tmp_path_factory.mktemp("whole") / "run.checkpoint"
    arrays = {"theta": np.zeros((1, 3)), "kept": np.arange(4)}
    source = SeededRandomness(1)
    Keeper(Checkpoint(path), 10, identity, source).begin(lambda _: Snapshot(2, arrays, source.held()))
    use(path)
    return path.read_bytes()


def use(path: Path) -> None:
    found = Keeper(Checkpoint(path), 10, identity, SeededRandomness(1)).found
    assert found is not None
    assert found.step >= 0


def read(path: Path, content: bytes) -> str | None:
    path.write_bytes(content)
    path.chmod(0o600)
    return read_or_refused(lambda: use(path), path.parent)


def sealed(header: bytes, body: bytes, length: int | None = None) -> bytes:
    """A file with this header and body, and a digest that agrees."""
    content = _MARK + (len(header) if length is None else length).to_bytes(8, "little") + header + body
    return content + hashlib.blake2b(content, digest_size=32).digest()


def parts(whole: bytes) -> tuple[Any, bytes]:
    end = BEGIN + int.from_bytes(whole[len(_MARK) : BEGIN], "little")
    return json.loads(whole[BEGIN:end]), whole[end:-32]


@tried(60, 1500)
def test_headers_that_lie(whole, tmp_path, examples):
    header, body = parts(whole)
    assert read(tmp_path / "c", sealed(json.dumps(header).encode(), body)) is None
    explore(
        examples, changed_json(header), lambda found: read(tmp_path / "c", sealed(json.dumps(found).encode(), body))
    )


@tried(60, 1500)
def test_damaged_bytes_under_a_digest_that_agrees(whole, tmp_path, examples):
    def check(content: bytes) -> None:
        read(tmp_path / "c", content + hashlib.blake2b(content, digest_size=32).digest())

    explore(examples, changed_bytes(whole[:-32]), check)


@pytest.mark.parametrize(
    "shape", [[2**40], [2**62, 4], [-1], [-1, -1], [0, -5], [1.5], ["3"], None, [[1]], [10**400], [0] * 100]
)
def test_shapes_that_lie_take_no_memory(whole, tmp_path, shape):
    header, body = parts(whole)
    header["arrays"]["theta"]["shape"] = shape
    assert "cut short or changed" in str(read(tmp_path / "c", sealed(json.dumps(header).encode(), body)))


@pytest.mark.parametrize("dtype", ["O", "V8", "M8[s]", "f8,f8", None, 3, ["<f8"], {}, "1e999", "1)", "(3,)f8", "a5"])
def test_arrays_of_anything_but_numbers_are_refused(whole, tmp_path, dtype):
    """NumPy evaluates a part of the last four, of which two end in a syntax error and a warning."""
    header, body = parts(whole)
    header["arrays"]["theta"]["dtype"] = dtype
    assert "cut short or changed" in str(read(tmp_path / "c", sealed(json.dumps(header).encode(), body)))


def test_deep_nesting_and_lengths_beyond_the_file_are_refused(whole, tmp_path):
    _, body = parts(whole)
    for content in (sealed(b"[" * 10**5, body), sealed(b"{}", body, 2**63), sealed(b"", b""), _MARK, b""):
        assert "cut short or changed" in str(read(tmp_path / "c", content))


def test_pipes_and_folders_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(CheckpointError, match=name):
            read_record(tmp_path / name)
