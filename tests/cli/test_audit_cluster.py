"""`sordino audit --cluster` and `--keep`: sixteen small models come out the same wherever they are fitted."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sordino.auditing import cluster as connection
from sordino.auditing import cluster as units
from sordino.auditing.attack.chains import ChainFit
from sordino.auditing.cluster import ClusterOptions, FitOnCluster
from sordino.auditing.fleet.engine import Checkpoints
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.cli import main
from sordino.core.spec import read_spec
from tests.core.doubling import listening

SPEC = str(Path(__file__).parents[2] / "examples" / "specs" / "logistic-instance.json")
ATTACK = ["audit", SPEC, "--method", "attack", "--models", "16", "--seed", "3", "--json"]


@pytest.fixture(scope="module")
def here() -> dict:
    """The audit on one device, as a person would run it, with eight virtual ones in sight."""
    code = (
        "import sys, jax; from sordino.cli import main;"
        "code = main(sys.argv[1:]); print(len(jax.local_devices()), 'distributed' in sys.modules, file=sys.stderr);"
        "sys.exit(code)"
    )
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code, *ATTACK], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr.split()[-2:] == ["8", "False"]
    return json.loads(done.stdout)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main([*ATTACK, *arguments]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_one_device_and_eight_virtual_ones_give_the_same_numbers(here, capsys) -> None:
    assert answer(capsys) == here


def test_an_audit_that_was_stopped_takes_up_where_it_was(here, capsys, tmp_path, monkeypatch) -> None:
    fitted: list[int] = []
    block = ChainFit._block

    def stopped_at_the_second(self, data, seeds):
        if len(fitted) == 1:
            raise KeyboardInterrupt
        fitted.append(len(seeds))
        return block(self, data, seeds)

    folder = tmp_path / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(ChainFit, "_block", stopped_at_the_second)
        assert main([*ATTACK, "--keep", str(folder)]) == 130
    [file] = folder.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    capsys.readouterr()
    monkeypatch.setattr(ChainFit, "_block", lambda self, data, seeds: fitted.append(0) or block(self, data, seeds))
    assert answer(capsys, "--keep", str(folder)) == here
    assert fitted == [8, 0]  # the first side before the stop, the second one after it
    assert not folder.exists()


@pytest.mark.slow
def test_two_workers_give_the_numbers_of_one_device(here, capsys) -> None:
    assert answer(capsys, "--cluster", "local", "--workers", "2") == here


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_an_audit_changes_nothing() -> None:
    killed: list[int] = []

    def kill_one(done: int, wanted: int) -> None:
        if not killed:
            killed.append(multiprocessing.active_children()[0].pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    spec = read_spec(Path(SPEC))
    wanted = audit(spec, "attack", AuditOptions(delta=1e-5, models=16, seed=3))
    elsewhere = FitOnCluster(ClusterOptions("local", workers=2), progress=kill_one)
    found = audit(spec, "attack", AuditOptions(delta=1e-5, models=16, seed=3, fit_sides=elsewhere))
    assert killed
    assert found == wanted


class Scheduler:
    """A dask scheduler on this machine, without authentication, and its workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.scheduler = self._run("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", self.file)
        self.workers: list[subprocess.Popen[bytes]] = []
        while not (self.file.exists() and self.file.read_text().strip()):
            assert self.scheduler.poll() is None
            time.sleep(0.1)
        self.address: str = json.loads(self.file.read_text())["address"]

    def _run(self, what: str, *arguments: object) -> "subprocess.Popen[bytes]":
        # Workers import the tests' own modules, and no other worker of theirs is watched.
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def add_worker(self) -> None:
        self.workers.append(self._run("worker", self.address, "--nthreads", "1", "--no-nanny"))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def scheduler(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra cluster")
    made = Scheduler(tmp_path)
    made.add_worker()
    made.add_worker()
    yield made
    made.end()


MANY = [*ATTACK[:5], "4096", *ATTACK[6:]]  # four blocks


def struck(monkeypatch: pytest.MonkeyPatch, blow) -> None:
    """Something happens as soon as the first block is kept."""
    saved, kept = Checkpoints.save, []

    def save(self, chunk, result):
        saved(self, chunk, result)
        kept.append(chunk)
        if len(kept) == 1:
            blow()

    monkeypatch.setattr(Checkpoints, "save", save)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets of processes from /proc")
def test_nothing_listens_while_an_audit_runs_on_local_workers(tmp_path, capsys, monkeypatch) -> None:
    seen: list[set[str]] = []
    before = listening([os.getpid()])

    def look() -> None:
        children = [child.pid for child in multiprocessing.active_children() if child.pid is not None]
        assert children
        seen.append(listening([os.getpid(), *children]))

    struck(monkeypatch, look)
    assert main([*MANY, "--cluster", "local", "--keep", str(tmp_path / "kept")]) == 0
    assert len(seen) == 1
    assert seen[0] <= before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask warns about its own sockets.
def test_a_lost_scheduler_is_one_sentence_and_the_audit_goes_on_from_what_was_kept(
    scheduler, tmp_path, capfd, monkeypatch
) -> None:
    with monkeypatch.context() as patch:
        struck(patch, scheduler.scheduler.kill)
        arguments = [*MANY, "--cluster", scheduler.address, "--keep", str(tmp_path / "kept")]
        assert main(arguments) == 1
    said = [line for line in capfd.readouterr().err.splitlines() if "WARNING" not in line]
    assert len(said) == 1
    assert said[0].startswith("sordino: The cluster at ")
    assert "--keep" in said[0]
    assert len(list((tmp_path / "kept").iterdir())) >= 1
    fitted: list[int] = []
    block = ChainFit._block
    monkeypatch.setattr(ChainFit, "_block", lambda self, data, seeds: fitted.append(1) or block(self, data, seeds))
    assert main([*MANY, "--keep", str(tmp_path / "kept")]) == 0
    assert len(fitted) < 4
    gone_on = json.loads(capfd.readouterr().out)
    assert main(MANY) == 0
    assert json.loads(capfd.readouterr().out) == gone_on


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_losing_every_worker_that_held_the_work_is_survived_when_others_come(
    scheduler, tmp_path, capfd, monkeypatch
) -> None:
    def both_holders_lost() -> None:
        for worker in scheduler.workers:
            worker.kill()
        scheduler.add_worker()

    with monkeypatch.context() as patch:
        struck(patch, both_holders_lost)
        assert main([*MANY, "--cluster", scheduler.address, "--keep", str(tmp_path / "kept")]) == 0
    elsewhere = json.loads(capfd.readouterr().out)
    assert main(MANY) == 0
    assert json.loads(capfd.readouterr().out) == elsewhere


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_losing_every_worker_for_good_is_one_sentence(scheduler, tmp_path, capfd, monkeypatch) -> None:
    def all_lost() -> None:
        for worker in scheduler.workers:
            worker.kill()

    monkeypatch.setattr(units, "_PATIENCE", 5)
    struck(monkeypatch, all_lost)
    assert main([*MANY, "--cluster", scheduler.address, "--keep", str(tmp_path / "kept")]) == 1
    said = [line for line in capfd.readouterr().err.splitlines() if "WARNING" not in line]
    assert len(said) == 1
    assert "was lost before the work was done" in said[0]


@pytest.mark.parametrize(
    ("address", "warned"), [("tcp://127.0.0.1:9", True), ("127.0.0.1:9", True), ("tls://127.0.0.1:9", False)]
)
def test_a_scheduler_without_authentication_is_warned_about(address, warned, capsys, monkeypatch) -> None:
    monkeypatch.setattr(connection, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    assert main(["audit", SPEC, "--method", "attack", "--models", "16", "--cluster", address]) == 2
    assert ("WARNING" in capsys.readouterr().err) is warned


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cluster", "local"], "Expected --cluster with --method attack"),
        (["--keep", "folder"], "Expected --keep with --method attack"),
        (["--method", "attack", "--keep", "folder"], "Expected --keep with --seed"),
        (["--method", "attack", "--models", "16", "--cluster", "no::where"], "Expected a dask scheduler at"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(arguments, words, capsys) -> None:
    pytest.importorskip("distributed", reason="needs the extra cluster")
    assert main(["audit", SPEC, *arguments]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "WARNING" not in line]
    assert len(said) == 1
    assert words in said[0]


def test_a_missing_extra_is_named(capsys, monkeypatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(connection, "import_module", absent)
    assert main(["audit", SPEC, "--method", "attack", "--models", "16", "--cluster", "tls://host:8786"]) == 2
    assert "install sordino[cluster]" in capsys.readouterr().err
