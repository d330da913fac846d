"""`sordino audit --cluster` and `--keep`: sixteen small models come out the same wherever they are fitted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sordino.auditing.experiment import ChainFit, Checkpoints, FitOnCluster
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.cli import main
from sordino.core.spec import read_spec
from sordino.data.sources import databases
from sordino.engines import clusters
from sordino.engines.local import Streamed
from tests.cli.console import answer

SPEC = str(Path(__file__).parents[2] / "examples" / "specs" / "logistic-instance.json")
ATTACK = ["audit", SPEC, "--method", "attack", "--models", "16", "--seed", "3"]
MANY = [*ATTACK[:5], "4096", *ATTACK[6:]]  # four blocks


def test_an_audit_that_was_stopped_takes_up_where_it_was(capsys, tmp_path, monkeypatch) -> None:
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
    monkeypatch.setattr(ChainFit, "_block", lambda self, data, seeds: fitted.append(0) or block(self, data, seeds))
    found = answer(capsys, *ATTACK, "--keep", folder)
    assert fitted == [8, 0]  # the first side before the stop, the second one after it
    assert not folder.exists()
    assert answer(capsys, *ATTACK) == found


@pytest.mark.slow
def test_one_device_eight_virtual_ones_and_two_workers_give_the_same_numbers(capsys) -> None:
    code = (
        "import sys, jax; from sordino.cli import main;"
        "code = main(sys.argv[1:]); print(len(jax.local_devices()), 'distributed' in sys.modules, file=sys.stderr);"
        "sys.exit(code)"
    )
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", code, *ATTACK, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.split()[-2:] == ["8", "False"]
    here = json.loads(done.stdout)
    assert answer(capsys, *ATTACK) == here
    assert answer(capsys, *ATTACK, "--cluster", "local", "--workers", "2") == here


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_an_audit_changes_nothing(tmp_path, monkeypatch) -> None:
    killed: list[int] = []
    engine = Streamed(2, patience=0.0, replaces=True)

    def kill_one() -> None:
        killed.append([*engine._helpers._busy, *engine._helpers._idle][0].pid)
        os.kill(killed[0], signal.SIGKILL)

    spec = read_spec(Path(SPEC))
    struck(monkeypatch, kill_one)
    elsewhere = FitOnCluster(engine, tmp_path / "kept")
    found = audit(spec, "attack", AuditOptions(delta=1e-5, models=16, seed=3, fit_sides=elsewhere))
    assert killed
    assert found == audit(spec, "attack", AuditOptions(delta=1e-5, models=16, seed=3))


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
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def add_worker(self) -> None:
        self.workers.append(self._run("worker", self.address, "--nthreads", "1", "--no-nanny"))

    def lose_workers(self) -> None:
        for worker in self.workers:
            worker.kill()

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


def struck(monkeypatch: pytest.MonkeyPatch, blow) -> None:
    """Something happens as soon as the first block is kept."""
    saved, kept = Checkpoints.save, []

    def save(self, chunk, result):
        saved(self, chunk, result)
        kept.append(chunk)
        if len(kept) == 1:
            blow()

    monkeypatch.setattr(Checkpoints, "save", save)


def sentence(capture) -> str:
    """The one line on stderr that is not a warning."""
    (line,) = (line for line in capture.readouterr().err.splitlines() if "WARNING" not in line)
    return line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask warns about its own sockets.
def test_a_lost_scheduler_or_all_workers_is_one_sentence_and_the_audit_goes_on(scheduler, tmp_path, capfd, monkeypatch):
    there = ["--cluster", scheduler.address.replace("tcp://", "dask://"), "--keep", str(tmp_path / "kept")]
    with monkeypatch.context() as patch:  # others come in the place of those that are lost

        def replaced() -> None:
            scheduler.lose_workers()
            scheduler.add_worker()

        struck(patch, replaced)
        elsewhere = answer(capfd, *MANY, *there)
    here = answer(capfd, *MANY)
    assert elsewhere == here
    with monkeypatch.context() as patch:
        patch.setattr(clusters, "PATIENCE", 5.0)
        struck(patch, scheduler.lose_workers)
        assert main([*MANY, *there[:3], str(tmp_path / "lost")]) == 2
        assert "no workers for 5 seconds" in sentence(capfd)
    scheduler.add_worker()
    with monkeypatch.context() as patch:
        struck(patch, scheduler.scheduler.kill)
        assert main([*MANY, *there]) == 2
    assert "Dask" in sentence(capfd)
    assert len(list((tmp_path / "kept").iterdir())) >= 1
    fitted: list[int] = []
    block = ChainFit._block
    monkeypatch.setattr(ChainFit, "_block", lambda self, data, seeds: fitted.append(1) or block(self, data, seeds))
    assert answer(capfd, *MANY, "--keep", tmp_path / "kept") == here
    assert len(fitted) < 4


@pytest.mark.parametrize("address", ["dask://127.0.0.1:9", "tls://127.0.0.1:9"])
def test_a_missing_extra_is_named_and_a_scheduler_without_tls_warned_about(address, capsys, monkeypatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(databases, "import_module", absent)
    assert main(["audit", SPEC, "--method", "attack", "--models", "16", "--cluster", address]) == 2
    said = capsys.readouterr().err
    assert ("WARNING" in said) is ("tls" not in address)
    assert "Install sordino[cluster]" in said


def test_what_cannot_be_done_is_refused_in_a_sentence(capsys) -> None:
    pytest.importorskip("distributed", reason="needs the extra cluster")
    for arguments, words in (
        (["--cluster", "local"], "Expected --cluster with --method attack"),
        (["--keep", "folder"], "Expected --keep with --method attack"),
        (["--method", "attack", "--keep", "folder"], "`--keep` needs `--seed`"),
        (["--method", "attack", "--models", "16", "--cluster", "no::where"], "Expected engine to be one of"),
    ):
        assert main(["audit", SPEC, *arguments]) == 2
        assert words in sentence(capsys)
