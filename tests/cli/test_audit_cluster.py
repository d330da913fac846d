"""`sordino audit --cluster` and `--keep`: sixteen small models come out the same wherever they are fitted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sordino.audit import AuditOptions, audit
from sordino.audit.attack import ChainFit
from sordino.audit.cluster import ClusterOptions, FitOnCluster, connection
from sordino.cli import main
from sordino.core.spec import read_spec

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
@pytest.mark.filterwarnings("ignore")  # Dask warns about sockets of its own processes.
def test_two_workers_give_the_numbers_of_one_device(here, capsys) -> None:
    pytest.importorskip("distributed", reason="needs the extra cluster")
    assert answer(capsys, "--cluster", "local", "--workers", "2") == here


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # A killed worker leaves sockets open.
def test_a_worker_killed_in_the_middle_of_an_audit_changes_nothing() -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
    killed: list[int] = []

    def kill_one(done: int, wanted: int) -> None:
        if not killed:
            workers = distributed.get_client().run(os.getpid)
            killed.append(next(iter(workers.values())))
            os.kill(killed[0], signal.SIGKILL)

    spec = read_spec(Path(SPEC))
    wanted = audit(spec, "attack", AuditOptions(delta=1e-5, models=16, seed=3))
    elsewhere = FitOnCluster(ClusterOptions("local", workers=2), progress=kill_one)
    found = audit(spec, "attack", AuditOptions(delta=1e-5, models=16, seed=3, fit_sides=elsewhere))
    assert killed
    assert found == wanted


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
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_missing_extra_is_named(capsys, monkeypatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(connection, "import_module", absent)
    assert main(["audit", SPEC, "--method", "attack", "--models", "16", "--cluster", "local"]) == 2
    assert "install sordino[cluster]" in capsys.readouterr().err
