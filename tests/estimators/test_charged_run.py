"""`charged_run` is the only way to a release: refused, killed at any call and resumed, for all who call it."""

import ast
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sordino
from sordino import InputError, Ledger, LedgerRefusal, Relation
from sordino.core.spec import Batch, Problem
from sordino.data import declared_lines
from sordino.explore.scoring import cube_lengths, sum_plan
from sordino.fitting import charge
from sordino.fitting.charge import FitCheckpoint, RowAccess, RunContents, charged_run
from sordino.fitting.fit import fit_table
from sordino.fitting.problem import Sources
from sordino.ledger.release.folder import release_digest
from sordino.mechanisms import dp_sgd
from sordino.mechanisms.networks.training import Descent

PACKAGE = Path(sordino.__file__).parent
ROWS = 400
SCHEMA = declared_lines(f"records = {ROWS}\na: -1..1\nb: -1..1\ny: -1..1 [target]")
ASKED = {"epsilon": 4.0, "delta": 1e-6, "random_state": 1}


def table(count=ROWS):
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, ROWS))
    return {"a": a[:count], "b": b[:count], "y": (0.5 * a + 0.1 * b)[:count]}


@pytest.fixture(scope="module")
def fitted():
    return fit_table("linear", table(), schema=SCHEMA, relation="replace-one", epsilon=4.0, delta=1e-6, seed=1)


def fit(_, data, **more):
    seed = more.pop("random_state")
    return fit_table("linear", data, schema=SCHEMA, relation="replace-one", method="ridge", seed=seed, **more)


def look(_, data, **more):
    return sordino.explore.look(
        data, ["mean: a", "histogram: y"], schema=SCHEMA, relation="replace-one", **more
    ).release


def check(fitted, data, **more):
    return sordino.explore.check(fitted, data, **more).release


def compare(fitted, data, **more):
    return sordino.explore.compare({"one": fitted, "other": fitted}, data, **more).release


def choose(_, data, **more):
    asked = {"schema": SCHEMA, "relation": "replace-one", "trials": 2} | more
    return sordino.explore.choose("linear", data, ["y ~ a", "y ~ b"], **asked).release


def chain(_, data, **more):
    spec = dp_sgd(
        Problem(n=ROWS, dim=1, gradient_sensitivity=2.0, gradient_bound=1.0),
        step_size=0.3,
        batch=Batch("full"),
        noise_multiplier=1.0,
        clip_norm=1.0,
        steps=3,
        relation="replace-one",
        view="last-iterate",
        delta=1e-6,
    )
    return sordino.fit_chain(spec, lambda theta, x, y: (x @ theta - y) ** 2, data["a"][:, None], data["y"], **more)


def custom(_, data, **more):
    def loss(params, x, y):
        return (x * params["w"] - y) ** 2

    named = {"x": data["a"], "y": data["y"]}
    options = {"rounds": 3}
    return sordino.fit(
        loss, named, params={"w": np.zeros(())}, relation="replace-one", records=ROWS, options=options, **more
    )


def network(_, data, **more):
    def loss(params, example):
        return (example[0] * params["w"] - example[1]) ** 2

    given = (data["a"].astype(np.float32), data["y"].astype(np.float32))
    more |= {"rounds": 3, "clip": 1.0, "training": sordino.Training(Descent(0.1, 0.0)), "relation": "replace-one"}
    return sordino.fit_network(loss, {"w": np.zeros((), np.float32)}, given, **more).release


CALLERS = [fit, look, check, compare, choose, chain, custom, network]
CASES = pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)


def ledger(folder, epsilon=50.0):
    return Ledger.open(folder / "book", dataset="t", relation="replace-one", epsilon=epsilon, delta=1e-4)


class Killed(BaseException):
    """What no `except Exception` stops."""


class Calls:
    """Writes down calls as they begin and end, and raises at one of them."""

    POINTS = (
        (Sources, "ready"),
        (Ledger, "debit"),
        (RowAccess, "read"),
        (RunContents, "release"),
        (Ledger, "name_release"),
        (FitCheckpoint, "save"),
        (FitCheckpoint, "done"),
    )

    def __init__(self, monkeypatch, stop=-1, kind=Killed):
        self.log, self._stop, self._kind = [], stop, kind
        for owner, name in self.POINTS:
            monkeypatch.setattr(owner, name, self.watched(getattr(owner, name), name))

    def watched(self, function, name):
        def call(*given, **named):
            self._step(name)
            answer = function(*given, **named)
            self._step(f"{name} done")
            return answer

        return call

    def _step(self, word):
        self.log.append(word)
        if len(self.log) - 1 == self._stop:
            raise self._kind


def test_nobody_else_debits_a_ledger_or_names_a_release():
    calls = {
        (path.relative_to(PACKAGE).as_posix(), node.func.attr)
        for layer in ("fitting", "inference", "explore", "estimators")
        for path in (PACKAGE / layer).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("debit", "name_release")
    }
    assert calls == {("fitting/charge.py", "debit"), ("fitting/charge.py", "name_release")}


@CASES
def test_the_order_is_debit_rows_release_name(caller, fitted, tmp_path, monkeypatch):
    book = ledger(tmp_path)
    calls = Calls(monkeypatch)
    release = caller(fitted, table(), ledger=book, **ASKED)
    begun = [word for word in calls.log if not word.endswith("done")]
    assert begun[:3] == ["ready", "debit", "read"]
    assert begun[-2:] == ["release", "name_release"]
    assert begun.count("debit") == 1
    (entry,) = book.entries()
    assert entry.release == release_digest(release)
    assert release.ledger["digest"] == entry.digest
    assert book.verify().sound


def stopped(caller, fitted, folder, stop, kind):
    """The calls of a run that stops at one of them, and whether it did; no debit is hidden, and no row read unpaid."""
    (folder / f"{kind.__name__} {stop}").mkdir()
    book = ledger(folder / f"{kind.__name__} {stop}")
    with pytest.MonkeyPatch.context() as patched:
        calls = Calls(patched, stop, kind)
        with suppress(kind, sordino.core.validate.SordinoError):
            caller(fitted, table(), ledger=book, **ASKED)
    paid = "debit done" in calls.log
    assert len(book.entries()) == paid
    assert "read" not in calls.log or calls.log.index("read") > calls.log.index("debit done")
    assert all((entry.release is not None) == ("name_release done" in calls.log) for entry in book.entries())
    assert book.verify().sound
    return calls.log, len(calls.log) - 1 == stop


@CASES
def test_a_refused_run_reads_nothing(caller, fitted, tmp_path, monkeypatch):
    small = ledger(tmp_path, 0.01)
    calls = Calls(monkeypatch)
    with pytest.raises(LedgerRefusal):
        caller(fitted, table(), ledger=small, **ASKED)
    assert "read" not in calls.log
    assert small.entries() == ()


@CASES
def test_a_run_that_stops_around_its_debit_reads_nothing_that_was_not_paid_for(caller, fitted, tmp_path):
    logs = [stopped(caller, fitted, tmp_path, stop, Killed)[0] for stop in range(1, 5)]
    assert logs[-1] == ["ready", "ready done", "debit", "debit done", "read"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Killed, OSError])
@CASES
def test_a_run_that_stops_at_any_call_hides_no_debit(caller, kind, fitted, tmp_path):
    """Killed, or stopped by a full disk, before and after every call."""
    stop = 0
    while stopped(caller, fitted, tmp_path, stop, kind)[1]:
        stop += 1
    assert stop >= 10


@pytest.mark.parametrize("caller", [fit, look, check, compare, choose], ids=lambda caller: caller.__name__)
def test_another_public_number_of_records_is_refused_before_the_debit(caller, fitted, tmp_path):
    book, more = ledger(tmp_path), {name: np.append(cells, 0.0) for name, cells in table().items()}
    for rows in (table(ROWS - 1), more):
        with pytest.raises(InputError, match=f"Expected {ROWS} records as the schema declares, got"):
            caller(fitted, rows, ledger=book, **ASKED)
    assert book.entries() == ()


NAMES = ("first", "second")
PLAN = sum_plan("a toy", cube_lengths(1), SCHEMA, epsilon=1.0, delta=1e-6, relation=Relation.REPLACE_ONE)


def checkpoint_of(folder, book):
    spec, where = PLAN.explanation.spec, {"engine": "toy"}
    return FitCheckpoint.at(folder / "rounds", spec, SCHEMA, where, book, private=True, numbers=dict.fromkeys(NAMES, 1))


def resumable(folder, book, drawn):
    """A run that asks two questions, each answered with fresh noise and kept before anybody sees it."""

    def run(paid):
        kept = paid.checkpoint
        for name in NAMES:
            if name not in kept.answered:
                kept.add(name, paid.read(lambda: np.array([drawn.normal()])))
        return RunContents("toy", {name: kept.answered[name] for name in NAMES}, None, schema=SCHEMA)

    def store(release):
        stored = folder / "release"
        stored.mkdir(exist_ok=True)
        (stored / "arrays").write_text(str({name: float(release.arrays[name][0]) for name in NAMES}))
        return stored

    return charged_run(
        PLAN.explanation,
        run,
        words="a toy",
        epsilon=1.0,
        ledger=book,
        sources=Sources(None),
        checkpoint=lambda: checkpoint_of(folder, book),
        store=store,
    )[0]


@pytest.mark.parametrize("kind", [Killed, OSError])
def test_a_run_that_is_killed_at_any_call_resumes_for_one_debit(kind, tmp_path, monkeypatch):
    """Also where a full disk raises: what was answered stays the same, and one release is named and stored."""
    drawn = np.random.default_rng(0)
    stop = 0
    while True:
        folder = tmp_path / str(stop)
        folder.mkdir()
        book = ledger(folder)
        with monkeypatch.context() as patched:
            calls = Calls(patched, stop, kind)
            try:
                resumable(folder, book, drawn)
            except (kind, sordino.core.validate.SordinoError):
                pass
            else:
                break
        if (folder / "rounds").exists():
            answered = checkpoint_of(folder, book).answered
            release = resumable(folder, book, drawn)
            assert all(np.array_equal(release.arrays[name], sums) for name, sums in answered.items())
            assert not (folder / "rounds").exists()
        if book.entries():
            (entry,) = book.entries()
            assert entry.release is not None
            assert (folder / "release" / "arrays").exists()
        else:
            assert "debit done" not in calls.log
        assert book.verify().sound
        stop += 1
    assert stop == len(calls.log) > 2 * len(Calls.POINTS)


def test_a_refused_run_leaves_no_new_checkpoint_and_a_copy_makes_no_second_release(tmp_path):
    drawn = np.random.default_rng(0)
    (tmp_path / "poor").mkdir()
    with pytest.raises(LedgerRefusal):
        resumable(tmp_path / "poor", ledger(tmp_path / "poor", 0.01), drawn)
    assert not (tmp_path / "poor" / "rounds").exists()
    book = ledger(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        Calls(patched, 7)
        with pytest.raises(Killed):
            resumable(tmp_path, book, drawn)
    copied = (tmp_path / "rounds").read_bytes()
    first = resumable(tmp_path, book, drawn)
    (tmp_path / "rounds").write_bytes(copied)
    (tmp_path / "rounds").chmod(0o600)
    with pytest.raises(InputError):
        resumable(tmp_path, book, drawn)
    assert [entry.release for entry in book.entries()] == [release_digest(first)]


def test_what_is_raised_on_rows_quotes_no_cell(tmp_path):
    def poisoned():
        raise ValueError("HIV-positive")

    with pytest.raises(sordino.core.validate.SordinoError) as raised:
        charge.guarded(poisoned, None)
    assert "HIV" not in str(raised.value)
    assert raised.value.__cause__ is None
