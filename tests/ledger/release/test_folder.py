# pyright: reportArgumentType=false
"""Release folders: exact round trips, whole or not at all, and no damage that gets through."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, read_spec
from sordino.accounting.evaluate import as_json, explain
from sordino.core.spec.instance import NamedModel
from sordino.ledger.release import StoredRelease, posterior_of, read_release, write_release
from sordino.ledger.release.document import chain_arrays
from sordino.mechanisms.chain.release import KeptIterates, LastIterate
from sordino.models import MODELS, GaussianMixture, Logistic, MLPRegression
from sordino.models.base import describe_model
from sordino.models.registry import build_model

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(**values) -> StoredRelease:
    spec = read_spec(EXAMPLES / "specs" / "full-last-iterate.json")
    found = explain(spec, 1e-5)
    assert found.tightest is not None
    kind, arrays = chain_arrays(LastIterate(spec, np.linspace(-1, 1, spec.dim, dtype=np.float32)[None]))
    model = describe_model(Logistic(weight_decay=0.1))
    release = StoredRelease(kind, spec, found.tightest, 1e-5, True, arrays, model=model, answers=as_json(found))
    return replace(release, **values)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    return write_release(tmp_path_factory.mktemp("releases") / "one", example())


def test_what_is_written_is_what_is_read(written):
    release, back = example(), read_release(written)
    assert (back.spec, back.bound, back.delta, back.model) == (release.spec, release.bound, 1e-5, release.model)
    assert np.array_equal(back.arrays["draws"], release.arrays["draws"])
    assert back.epsilon == release.epsilon
    assert posterior_of(back).mean == pytest.approx(release.arrays["draws"].ravel())
    assert sorted(path.name for path in written.iterdir()) == ["arrays.safetensors", "release.json"]


def test_swapped_and_wrong_arguments_are_one_sentence_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, release = "Expected a path as the first argument", "Expected a release as the second argument"
    for first, second, words in (
        (example(), "made", f"{path} of write_release.path, release., got a release"),
        ("made", "made", f"{release} of write_release.*got a str"),
        (None, example(), f"{path}.*got a NoneType"),
        ("made", None, f"{release}.*got a NoneType.*release_"),
    ):
        with pytest.raises(InputError, match=words):
            write_release(first, second)
    with pytest.raises(InputError, match=f"{path} of read_release"):
        read_release(example())  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_is_not_private_says_so(tmp_path):
    folder = write_release(tmp_path / "try", example(private=False))
    assert json.loads((folder / "release.json").read_text())["warning"].startswith("NON-PRIVATE")
    assert not read_release(folder).private


def test_an_existing_folder_is_never_touched(tmp_path, written):
    before = (written / "release.json").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        write_release(written, example())
    assert (written / "release.json").read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="exists already"):
        write_release(tmp_path / "link", example())


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; nothing was changed"):
        write_release(tmp_path / "one", example())
    assert list(tmp_path.iterdir()) == []


def test_every_iterate_and_every_registered_model():
    spec = read_spec(EXAMPLES / "specs" / "kept-draws.json")
    kind, arrays = chain_arrays(KeptIterates(spec, np.zeros((1, 4, spec.dim))))
    assert (kind, arrays["draws"].shape) == ("kept-iterates", (1, 4, spec.dim))
    network = MLPRegression(hidden=(5, 2), activation="relu")
    models = (Logistic(weight_decay=0.3), network, GaussianMixture((0.4, 0.6), 2.0))
    for model in models:
        named = describe_model(model)
        assert named is not None
        assert build_model(named) == model
    assert {type(model) for model in models} <= set(MODELS.values())
    with pytest.raises(InputError, match=r"model\.parameters of ridge to be among"):
        build_model(NamedModel("ridge", (("slope", 1.0),)))
    with pytest.raises(InputError, match=r"model\.name"):
        build_model(NamedModel("os.system"))


CHANGES = [
    ({"format": "other"}, "check that this is a release folder"),
    ({"version": "3.0"}, "use a newer Sordino"),
    ({"version": "1.2"}, "that wrote it"),
    ({"version": "1"}, "two numbers"),
    ({"surprise": 1}, "only the keys"),
    ({"delta": 2.0}, "delta"),
    ({"private": "yes"}, "true or false"),
    ({"arrays": {}}, "was changed"),
    ({"arrays_sha256": "0" * 64}, "was changed"),
    ({"bound": {"theorem": "x"}}, "bound"),
    ({"model": {"name": "ridge", "code": "x"}}, "code"),
    ({"spec": None}, "spec"),
]


def test_changed_documents_are_refused_and_newer_minor_versions_read(tmp_path):
    folder = write_release(tmp_path / "one", example())
    whole = json.loads((folder / "release.json").read_text())
    for change, message in CHANGES:
        (folder / "release.json").write_text(json.dumps(whole | change))
        with pytest.raises(InputError, match=message):
            read_release(folder)
    # 2.0 as a number reads like "2.0", and keys of a newer minor version are ignored.
    for change in ({"version": 2.0}, {"version": "2.7", "later": {"a": 1}}):
        (folder / "release.json").write_text(json.dumps(whole | change))
        assert read_release(folder).delta == 1e-5


def test_missing_files(tmp_path, written):
    for path in (tmp_path / "none", tmp_path / "a\0b"):
        with pytest.raises(InputError):
            read_release(path)
    folder = write_release(tmp_path / "one", example())
    (folder / "arrays.safetensors").unlink()
    with pytest.raises(InputError, match="readable file"):
        read_release(folder)
