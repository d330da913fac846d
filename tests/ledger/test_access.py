"""Who may use a ledger, and one at a time: owners, modes, folders, locks, lock files, kinds of disks."""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from sordino.ledger import Ledger, LedgerError, access, log

SOMEBODY = 65534
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="files are given away by root")


def refused(action) -> str:
    with pytest.raises(LedgerError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_ledger_that_others_may_write_is_refused(ledger, path, gaussian_release, monkeypatch):
    monkeypatch.setattr(access, "_group_of_one", lambda *_: False)
    for mode in (0o620, 0o602, 0o666, 0o664):
        path.chmod(mode)
        for use in (ledger.balance, ledger.entries, lambda: ledger.debit(*gaussian_release(0.1))):
            assert f"mode {mode:04o}" in refused(use)
    path.chmod(0o600)
    assert ledger.debit(*gaussian_release(0.1)).sequence == 1


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_in_which_others_may_replace_the_ledger_is_refused(ledger, path, mode, gaussian_release, monkeypatch):
    monkeypatch.setattr(access, "_group_of_one", lambda *_: False)
    path.parent.chmod(mode)
    for use in (
        ledger.balance,
        lambda: ledger.debit(*gaussian_release(0.1)),
        lambda: Ledger.open(path.with_name("new"), "clinic", "replace-one", 1.0, 1e-5),
    ):
        said = refused(use)
        assert f"mode {mode:04o}" in said
        assert "folder" in said
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    # Where only owners may remove what is theirs, as in the folder for temporary files, others can but add.
    path.parent.chmod(mode | stat.S_ISVTX)
    assert ledger.debit(*gaussian_release(0.1)).sequence == 1


def test_a_group_of_its_owner_alone_is_not_others(ledger, path, gaussian_release, monkeypatch):
    path.chmod(0o660)
    path.parent.chmod(0o770)
    monkeypatch.setattr(access, "_group_of_one", lambda *_: True)
    assert ledger.debit(*gaussian_release(0.1)).sequence == 1
    path.chmod(0o662)
    assert "mode 0662" in refused(ledger.balance)


def test_a_group_is_of_one_when_it_has_its_owners_name_and_no_other_member(monkeypatch):
    """The list of a group does not name those whose primary group it is."""
    ann, bob = (SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=7) for name, uid in (("ann", 5), ("bob", 6)))
    named = {7: ("ann", []), 8: ("ann", ["ann", "bob"]), 9: ("staff", [])}
    groups = {number: SimpleNamespace(gr_name=name, gr_mem=members) for number, (name, members) in named.items()}
    monkeypatch.setattr(access.pwd, "getpwuid", lambda user: {5: ann}[user])
    monkeypatch.setattr(access.grp, "getgrgid", lambda group: groups[group])
    monkeypatch.setattr(access.pwd, "getpwall", lambda: [ann])
    assert [access._group_of_one(5, group) for group in (7, 8, 9, 10)] == [True, False, False, False]
    assert not access._group_of_one(6, 7)
    status = SimpleNamespace(st_mode=0o100660, st_uid=5, st_gid=7)
    assert not access.shared(status)
    monkeypatch.setattr(access.pwd, "getpwall", lambda: [ann, bob])
    assert access.shared(status)


@needs_root
def test_a_ledger_of_another_user_is_refused_whoever_asks(gaussian_release):
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "ledger"
        ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
        os.chown(path, SOMEBODY, -1)
        assert f"got number {SOMEBODY}" in refused(ledger.balance)
        assert f"got number {SOMEBODY}" in refused(lambda: ledger.debit(*gaussian_release(0.1)))
        # Root trusts the owner of the folder, as in a container that runs as root on somebody's files.
        os.chown(folder, SOMEBODY, -1)
        assert ledger.debit(*gaussian_release(0.1)).sequence == 1
        os.chown(path, 1234, -1)
        os.chown(folder, 1234, -1)
        folder.chmod(0o755)
        path.chmod(0o644)
        os.seteuid(SOMEBODY)
        try:
            assert "got number 1234" in refused(ledger.balance)
            os.seteuid(0)
            os.chown(path, SOMEBODY, -1)
            os.seteuid(SOMEBODY)
            assert "could replace the ledger" in refused(ledger.balance)
        finally:
            os.seteuid(0)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("answer", [None, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_locks_that_do_nothing_or_are_not_there_are_noticed(ledger, path, answer, gaussian_release, monkeypatch):
    def flock(*_):
        if answer is not None:
            raise OSError(answer, "no locks")

    content = path.read_bytes()
    monkeypatch.setattr(fcntl, "flock", flock)
    assert "keep locks on files" in refused(lambda: ledger.debit(*gaussian_release(0.1)))
    assert path.read_bytes() == content
    assert ledger.balance().releases == 0  # reading needs none
    monkeypatch.undo()
    assert ledger.debit(*gaussian_release(0.1)).sequence == 1


def lock_file(path: Path) -> Path:
    return Path(f"{path}.lock")


def test_a_lock_file_is_there_while_a_ledger_is_held_and_at_no_other_time(ledger, path):
    with log.writing(path, 1.0):
        kind, machine, _, process = lock_file(path).read_text().split()
        assert (machine, process) == (access.machine_name(), str(os.getpid()))
        assert kind == ("local" if access.is_local(path) else "network")
        assert stat.S_IMODE(lock_file(path).stat().st_mode) == 0o600
    assert not lock_file(path).exists()


def test_the_lock_file_of_a_dead_process_is_in_nobodys_way(ledger, path, gaussian_release, monkeypatch):
    """The lock on the ledger is held: no process of this machine is inside, and on its own disk there are no others."""
    machine, quick = access.machine_name(), Ledger(path, timeout=0.0)
    for local, stamps in {
        True: ("", f"local {machine} h 1", f"network {machine} h 1", "local before-the-reboot h 1"),
        False: (f"network {machine} h 1", f"local {machine} h 1"),
    }.items():
        monkeypatch.setattr(access, "is_local", lambda _path, local=local: local)
        for stamp in stamps:
            lock_file(path).write_text(stamp)
            quick.debit(*gaussian_release(0.001))
            assert not lock_file(path).exists()


def test_the_lock_file_of_another_machine_is_waited_for_and_never_removed(ledger, path, gaussian_release, monkeypatch):
    quick = Ledger(path, timeout=0.05)
    for local, stamps in {
        True: ("network elsewhere h 1", "something that no version writes"),
        False: ("", "network elsewhere h 1", "local elsewhere h 1", "network unknown h 1"),
    }.items():
        monkeypatch.setattr(access, "is_local", lambda _path, local=local: local)
        for stamp in stamps:
            lock_file(path).write_text(stamp)
            assert "'clinic.ledger.lock'" in refused(lambda: quick.debit(*gaussian_release(0.001)))
            assert lock_file(path).read_text() == stamp
    lock_file(path).unlink()
    lock_file(path).symlink_to(path)
    assert "'clinic.ledger.lock'" in refused(lambda: quick.debit(*gaussian_release(0.001)))
    lock_file(path).unlink()
    assert ledger.balance().releases == 0
    assert quick.debit(*gaussian_release(0.001)).sequence == 1


@pytest.mark.parametrize("local", [True, False])
def test_where_no_lock_file_can_be_made_a_local_disk_does_without(ledger, path, local, gaussian_release, monkeypatch):
    """A file mounted alone into a folder that cannot be written: its own lock suffices, on this machine's disk."""

    def place(*_):
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(access, "_place", place)
    monkeypatch.setattr(access, "is_local", lambda _path: local)
    if local:
        assert ledger.debit(*gaussian_release(0.1)).sequence == 1
    else:
        assert "permissions" in refused(lambda: ledger.debit(*gaussian_release(0.1)))
        assert ledger.balance().releases == 0


MOUNTS = """\
22 27 0:21 / / rw,relatime - ext4 /dev/vda rw
23 22 0:22 / /home rw,relatime shared:1 - nfs4 server:/home rw,vers=4.2
24 22 0:23 / /with\\040space rw - cifs //server/share rw
25 22 0:24 / /home/ann/local rw - xfs /dev/vdb rw
26 22 0:25 / /over rw - xfs /dev/vdc rw
27 22 0:26 / /over rw - fuse.sshfs server: rw
28 22 254:0 /x/ledger /mnt/one/ledger rw - overlay overlay rw
a broken line
"""


KINDS = {
    "/srv/ledger": "ext4",
    "/home/ann/ledger": "nfs4",
    "/home/ann/local/ledger": "xfs",
    "/homes/ledger": "ext4",
    "/with space/ledger": "cifs",
    "/over/ledger": "fuse.sshfs",
    "/mnt/one/ledger": "overlay",
}


def test_the_kind_of_disk_is_read_off_the_mounts():
    assert {path: access.kind_of_disk(MOUNTS, Path(path)) for path in KINDS} == KINDS
    assert access._LOCAL & set(KINDS.values()) == {"ext4", "xfs", "overlay"}


def test_a_debit_does_not_cost_more_in_a_long_ledger(tmp_path, gaussian_release, monkeypatch):
    """What a debit reads and writes is counted: the same number of bytes, but for digits, after 5 and after 200."""
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 9.0, 1e-5)
    moved = []
    for name in ("read_at", "write_at", "write_all"):
        real = getattr(access, name)

        def counted(*arguments, real=real):
            found = real(*arguments)
            moved.append(len(found) if found is not None else len(arguments[-1]))
            return found

        monkeypatch.setattr(access, name, counted)
    costs = []
    for number in range(1, 201):
        moved.clear()
        ledger.debit(*gaussian_release(0.01))
        if number in {5, 200}:
            costs.append((len(moved), sum(moved)))
    assert costs[0][0] == costs[1][0]
    assert costs[1][1] < 1.1 * costs[0][1]


@pytest.mark.slow
def test_a_hundred_thousand_debits_take_minutes(gaussian_release):
    """Processor time on a disk in memory: about 2 ms a debit, first or last. A real disk adds one flush each."""
    from time import process_time

    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        ledger = Ledger.open(folder / "ledger", "clinic", "replace-one", 9.0, 1e-5)
        release, laps = gaussian_release(0.001), []
        for _ in range(100):
            begun = process_time()
            for _ in range(1000):
                ledger.debit(*release)
            laps.append(process_time() - begun)
        assert ledger.balance().releases == 100_000
        assert sum(laps) < 900
        assert sorted(laps[-10:])[5] < 3 * sorted(laps[:10])[5]
    finally:
        shutil.rmtree(folder)
