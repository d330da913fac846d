"""A sums query is one file: the template of the page, put beside the others, is found, run, certified and replayed."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, Ledger, Spec
from sordino.accounting.evaluate import explain
from sordino.auditing.replay.plan import compare
from sordino.auditing.replay.port import Recorder
from sordino.ledger import EntryVerdict
from sordino.ledger.release import StoredRelease, posterior_of, read_release, write_release
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.rounds import run_sums
from sordino.models.base import describe_model
from sordino.models.families.regression import GaussianLinear

PAGE = Path(__file__).parents[2] / "docs" / "developer" / "adding-a-query.md"
NAME, MODULE = "column means", "sordino.mechanisms.column_means"
RECORDS, WIDTH, DELTA = 200, 3, 1e-5


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def added(tmp_path_factory):
    """The template as a file of the package: nothing else is changed."""
    folder = tmp_path_factory.mktemp("mechanisms")
    (folder / "column_means.py").write_text(code_blocks()[0], encoding="utf-8")
    package = importlib.import_module("sordino.mechanisms")
    package.__path__.append(str(folder))
    yield
    package.__path__.remove(str(folder))
    del sys.modules[MODULE]


def described(relation="replace-one", **changes) -> Spec:
    algorithm = {"kind": "noised-sums", "query": f"{NAME} of a table", "records": RECORDS, "rounds": 4}
    algorithm |= {"sampling": {"scheme": "full"}, "contribution": 1.0, "noise_multiplier": 20.0}
    document = {"algorithm": algorithm | changes, "relation": relation, "view": "all-iterates", "delta": DELTA}
    return Spec.from_dict(document)


def table(seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (RECORDS, WIDTH))


def ran(spec, rows, randomness):
    return run_sums(spec, importlib.import_module(MODULE).ColumnMeans(), rows, np.zeros(len(rows)), randomness)


def test_the_page_shows_the_file_and_how_to_run_it(capsys):
    assert len(code_blocks()) == 2
    exec(compile(code_blocks()[1], str(PAGE), "exec"), {"np": np})
    assert capsys.readouterr().out.startswith("[")


def test_means_are_those_of_the_table_up_to_the_stated_noise():
    """12 numbers, 5 deviations each: a false alarm in 1e5."""
    rows = table()
    release = ran(described(), rows, SeededRandomness(1))
    assert release.noise == pytest.approx(20.0 / RECORDS / 2)
    assert np.abs(release.means - rows.mean(axis=0)).max() < 5 * release.noise
    assert release.iterates is not None
    assert release.iterates.shape == (4, WIDTH)
    quiet = ran(described(noise_multiplier=1e-6), rows, SeededRandomness(1))
    np.testing.assert_allclose(quiet.means, rows.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("scheme", ["cyclic", "shuffle-once", "reshuffled", "without-replacement", "poisson"])
def test_every_batch_scheme_serves_a_new_query(scheme):
    spec = described(sampling={"scheme": scheme, "size": 50}, noise_multiplier=1e-6)
    assert ran(spec, np.full((RECORDS, WIDTH), 0.25), SeededRandomness(2)).means == pytest.approx(0.25, abs=0.15)


def test_the_release_is_stored_read_back_and_certified(tmp_path):
    spec = described()
    bound = explain(spec, DELTA).tightest
    assert bound is not None
    released = ran(spec, table(), SeededRandomness(3))
    kind, arrays = released.query, released.posterior.arrays
    assert (kind, released.spec) == (NAME, spec)
    model = describe_model(GaussianLinear())
    folder = write_release(tmp_path / "one", StoredRelease(kind, spec, bound, DELTA, False, arrays, model=model))
    back = read_release(folder)
    assert back.spec == spec
    assert back.epsilon == explain(back.spec, DELTA).epsilon
    np.testing.assert_array_equal(posterior_of(back).mean, np.asarray(arrays["means"]))
    # Four rounds of noise 20 over a sensitivity of 2: mu = 2 / 10.
    assert back.epsilon == pytest.approx(explain(described(rounds=1, noise_multiplier=10.0), DELTA).epsilon, rel=1e-9)


def test_a_ledger_recomputes_its_entry(tmp_path):
    spec = described()
    bound = explain(spec, DELTA).tightest
    assert bound is not None
    ledger = Ledger.open(tmp_path / "intake.ledger", "intake", "replace-one", 2.0, DELTA)
    ledger.debit(bound, spec)
    assert [found.verdict for found in ledger.verify().findings] == [EntryVerdict.AGREES]


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_replay_finds_no_record_that_moves_a_sum_beyond_its_plan(relation):
    """Rows as long as the bound and longer ones, in opposite directions; the longest reach the plan."""
    spec, recorder = described(relation), Recorder()
    rows = table()
    rows[7] = (9.0, 0.0, 0.0)

    def start(rows):
        return lambda fresh: {"iterates": np.asarray(ran(spec, rows, fresh()).iterates)}

    first = recorder.record(start(rows), 5)
    other = rows.copy()
    other[7] = (-9.0, 0.0, 0.0)
    second = recorder.replay(first, start(other if relation == "replace-one" else np.delete(rows, 7, axis=0)))
    found = compare(spec, first, second)
    assert found.holds()
    assert 0.99 < found.ratio <= 1.0


def test_a_spec_of_another_query_is_refused():
    with pytest.raises(InputError, match=r"algorithm\.query to begin with 'column'"):
        ran(described(query="gradients of a loss"), table(), SeededRandomness(0))
    with pytest.raises(InputError, match="under replace-one"):
        ran(described(), table()[:-1], SeededRandomness(0))
