"""A folder is written whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from sordino.core import atomic_write as whole_files
from sordino.core.atomic_write import write_file, write_new_folder
from sordino.core.validate import InputError


@pytest.mark.parametrize("broken", ["_flushed", "flush_folder"])
def test_a_failure_leaves_a_whole_folder_or_none(tmp_path, monkeypatch, broken):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_files, broken, full)
    with pytest.raises(InputError, match="No space left"):
        write_new_folder(tmp_path / "folder", {"a": b"new"})
    assert [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] in ([], [b"new"])
    assert [path.name for path in tmp_path.iterdir()] in ([], ["folder"])


def test_a_new_folder_never_replaces(tmp_path):
    write_new_folder(tmp_path / "folder", {"a": b"1"})
    with pytest.raises(InputError, match="exists already"):
        write_new_folder(tmp_path / "folder", {"a": b"2"})
    assert (tmp_path / "folder" / "a").read_bytes() == b"1"


def test_folders_have_the_rights_that_the_umask_leaves(tmp_path):
    held = os.umask(0o027)
    try:
        write_new_folder(tmp_path / "folder", {"a": b"1"})
    finally:
        os.umask(held)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


def test_a_file_and_then_the_folder_that_names_it_are_brought_to_the_disk(tmp_path, monkeypatch):
    """Without the folder a power cut may leave the old name, or none."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    write_file(tmp_path / "a.json", b"{}")
    assert len(synced) == 2
    assert Path(synced[0]).name.startswith(".a.json.")
    assert synced[1] == str(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda handle: None if os.path.isfile(f"/proc/self/fd/{handle}") else _refuse())
    write_file(tmp_path / "a.json", b"[]")  # a disk that cannot
    assert (tmp_path / "a.json").read_bytes() == b"[]"


def _refuse() -> None:
    raise OSError(errno.EINVAL, "Invalid argument")
