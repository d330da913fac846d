# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOptionalMemberAccess=false
"""Opening fixes, debiting records, refusing changes nothing, verifying recomputes; single mechanisms too."""

import json
import math
import os
import stat
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordino import InputError, Spec, read_spec
from sordino.accounting import GaussianDP, PureDP, RenyiDP, TotalVariation, tightest
from sordino.accounting import evaluate as registry
from sordino.core.bound import GRADIENT_SENSITIVITY, Certificate, Evidence, Status
from sordino.ledger import ContentWarning, EntryVerdict, Ledger, LedgerRefusal, book, log
from sordino.ledger.book import fingerprint


def test_opening_fixes_the_terms_and_makes_a_file_only_its_owner_can_read(path):
    made = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5, reserve=0.25)
    found = Ledger.at(path)
    assert found.budget == made.budget
    assert (found.budget.dataset, found.budget.relation, found.budget.epsilon) == ("clinic", "replace-one", 1.0)
    assert (found.budget.delta, found.budget.reserve) == (1e-5, 0.25)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]  # no draft, no log left behind


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"relation": None}, "relation"),
        ({"relation": "neighbours"}, "replace-one"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"dataset": ""}, "dataset"),
        ({"dataset": "two\nlines"}, "dataset"),
        ({"dataset": "a" * 201}, "dataset"),
        ({"reserve": 1.0}, "reserve"),
        ({"timeout": -1}, "timeout"),
    ],
)
def test_bad_terms_are_one_sentence_and_make_no_file(path, change, named):
    terms = {"dataset": "clinic", "relation": "replace-one", "epsilon": 1.0, "delta": 1e-5} | change
    with pytest.raises(InputError, match=named):
        Ledger.open(path, **terms)
    assert list(path.parent.iterdir()) == []


def test_relation_has_no_default(path):
    with pytest.raises(TypeError, match="relation"):
        Ledger.open(path, dataset="clinic", epsilon=1.0, delta=1e-5)


def test_a_debit_records_everything_it_takes_to_check_it(ledger, gaussian_release):
    bound, spec = gaussian_release(0.1)
    entry = ledger.debit(bound, spec)
    assert ledger.entries() == (entry,)
    assert (entry.sequence, entry.theorem, entry.spec, entry.bound) == (1, "composition.gaussian", spec, bound)
    assert entry.epsilon == bound.guarantee.epsilon(1e-5)
    assert entry.charge == ledger._standing().rule.charge(bound.guarantee)
    assert {"sordino", "python", "numpy", "scipy"} == set(dict(entry.versions))
    assert len(bytes.fromhex(entry.digest)) == 32
    assert entry.time.endswith("+00:00")


def test_a_refusal_says_the_balance_and_what_would_still_fit_and_changes_nothing(ledger, path, gaussian_release):
    ledger.debit(*gaussian_release(0.2))
    before = path.read_bytes()
    with pytest.raises(LedgerRefusal) as caught:
        ledger.debit(*gaussian_release(0.2))
    assert path.read_bytes() == before
    balance = caught.value.balance
    assert balance == ledger.balance()
    assert "clinic" in str(caught.value)
    assert "one more release of up to epsilon" in str(caught.value)
    assert str(caught.value).count("\n") == 0
    # What the sentence promises holds: that release fits, one a little larger does not.
    with pytest.raises(LedgerRefusal):
        ledger.debit(*gaussian_release(balance.largest_mu * 1.001))
    ledger.debit(*gaussian_release(balance.largest_mu * 0.999))
    assert GaussianDP(balance.largest_mu).epsilon(1e-5) == balance.largest_epsilon


def test_an_add_remove_bound_is_a_group_of_two_in_a_replace_one_budget_and_not_conversely(
    path, tmp_path, gaussian_release
):
    replace_one = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    entry = replace_one.debit(*gaussian_release(0.1, "add-remove"))
    mu = entry.bound.guarantee.mu
    assert entry.charge.amounts[0] == pytest.approx(4 * mu * mu)
    assert [found.verdict for found in replace_one.verify().findings] == [EntryVerdict.AGREES]
    add_remove = Ledger.open(tmp_path / "other", "clinic", "add-remove", 1.0, 1e-5)
    with pytest.raises(InputError, match="under add-remove"):
        add_remove.debit(*gaussian_release(0.1))
    assert add_remove.balance().releases == 0


def test_a_bound_must_be_of_its_spec_and_rest_on_public_knowledge(ledger, gaussian_release):
    bound, spec = gaussian_release(0.1)
    with pytest.raises(InputError, match="the spec has"):
        ledger.debit(bound, replace(spec, relation="add-remove"))
    private = Certificate(GRADIENT_SENSITIVITY, 1.0, Evidence.PROVED, "largest row", reads_private_data=True)
    with pytest.raises(InputError, match="read from private data"):
        ledger.debit(replace(bound, certificates=(private,)), spec)
    with pytest.raises(InputError, match="Bound"):
        ledger.debit(bound.guarantee, spec)
    assert ledger.balance().releases == 0


def test_a_real_run_is_charged_and_verified(path, pytestconfig):
    spec = read_spec(pytestconfig.rootpath / "examples" / "specs" / "golden-poisson.json")
    ledger = Ledger.open(path, "clinic", "add-remove", 3.0, 1e-5)
    entry = ledger.debit(tightest(spec, 1e-5), spec)
    assert 0 < entry.charge.failure < 1e-8  # the far tail that the grid cuts off
    # Reference: Rényi accounting of the golden case gives 2.1014; the shares of delta cost a little more.
    assert 2.1014 <= ledger.balance().odometer_epsilon < 2.25
    assert ledger.verify().sound


def test_the_bound_that_fits_is_debited_and_not_the_one_with_the_smallest_epsilon(path, pytestconfig):
    """A total variation just below delta makes epsilon 0 for one release, and four of them make infinity."""
    spec = read_spec(pytestconfig.rootpath / "examples" / "specs" / "full-last-iterate.json")
    spec = spec.with_values({"algorithm.noise.scale": 400.0})
    bound = tightest(spec, 1e-5)
    assert isinstance(bound.guarantee, TotalVariation)
    assert bound.guarantee.value > 0.9e-5
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    entries = [ledger.debit(bound, spec) for _ in range(4)]
    assert {entry.theorem for entry in entries} == {"shifted.full"}
    assert all(entry.charge.failure == 0 for entry in entries)
    assert ledger.balance().largest_mu > 0.9 * ledger._standing().rule.largest_mu(ledger._standing().rule.total([]))
    assert ledger.verify().sound


def test_of_several_bounds_the_one_that_leaves_most_is_debited(path, gaussian_release, release_with):
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    small, spec = gaussian_release(0.01)
    large, failing = release_with(GaussianDP(0.2))[0], release_with(TotalVariation(9e-7))[0]
    whole, unfit = release_with(TotalVariation(9e-6))[0], release_with(PureDP(600.0))[0]
    for bounds in ([whole, failing, large, unfit, small], [small, whole], [unfit, small]):
        assert ledger.debit(bounds, spec).bound == small
    # Only the second fits beside what is there; of those that do not fit the first is what the refusal is about.
    assert ledger.debit([whole, failing], spec).bound == failing
    with pytest.raises(LedgerRefusal, match=r"and 9\S* of delta for failures, of which \S+ is left"):
        ledger.debit([whole, unfit], spec)
    with pytest.raises(InputError, match="has no bound"):
        ledger.debit([], spec)


def test_a_bound_that_its_theorem_does_not_give_is_debited_as_it_is(ledger, gaussian_release):
    """Other theorems are asked only about runs of which the bound is known to be one."""
    bound, spec = gaussian_release(0.01)
    ledger.debit(bound, spec)
    with pytest.raises(LedgerRefusal):
        ledger.debit(replace(bound, guarantee=TotalVariation(5e-6)), spec)
    assert ledger.balance().releases == 1


def test_verify_notices_that_more_was_spent_than_the_budget(ledger, gaussian_release, monkeypatch):
    from sordino.ledger.privacy_filter import PrivacyFilter

    monkeypatch.setattr(PrivacyFilter, "fits", lambda *_: True)
    for _ in range(3):
        ledger.debit(*gaussian_release(0.2))
    assert ledger.verify().sound
    monkeypatch.undo()
    found = ledger.verify()
    assert found.overspent
    assert not found.sound
    assert {finding.verdict for finding in found.findings} == {EntryVerdict.AGREES}


def test_verify_reports_each_kind_of_difference(ledger, gaussian_release, release_with, monkeypatch):
    bound, spec = gaussian_release(0.05)
    ledger.debit(bound, spec)
    ledger.debit(replace(bound, guarantee=GaussianDP(0.04)), spec)
    ledger.debit(replace(bound, guarantee=GaussianDP(0.06)), spec)
    ledger.debit(replace(bound, certificates=()), spec)
    ledger.debit(*release_with(PureDP(0.01)))
    found = ledger.verify()
    verdicts = [
        EntryVerdict.AGREES,
        EntryVerdict.UNDERCHARGED,
        EntryVerdict.CHANGED,
        EntryVerdict.CHANGED,
        EntryVerdict.UNKNOWN,
    ]
    assert [finding.verdict for finding in found.findings] == verdicts
    assert "0.04" not in found.findings[0].reason
    assert not found.sound
    assert json.loads(json.dumps(found.to_dict()))["entries"][1]["verdict"] == "undercharged"


def test_an_entry_whose_theorem_is_unknown_is_not_called_sound(ledger, gaussian_release):
    bound, spec = gaussian_release(0.05)
    ledger.debit(replace(bound, theorem="made.up"), spec)
    found = ledger.verify()
    assert [finding.verdict for finding in found.findings] == [EntryVerdict.UNKNOWN]
    assert "not registered" in found.findings[0].reason
    assert not found.sound
    assert found.to_dict()["sound"] is False


def test_verify_notices_a_theorem_that_no_longer_applies(ledger, gaussian_release, monkeypatch):
    ledger.debit(*gaussian_release(0.05))
    (found,) = [theorem for theorem in registry.theorems() if theorem.id == "composition.gaussian"]
    corrected = replace(found, status=Status.CORRECTED, scope=replace(found.scope, kinds=frozenset({"composite"})))
    monkeypatch.setitem(registry._THEOREMS, found.id, corrected)
    (finding,) = ledger.verify().findings
    assert finding.verdict is EntryVerdict.UNSUPPORTED
    assert not ledger.verify().sound


def test_an_export_is_json_and_holds_neither_key_nor_fingerprint(ledger, gaussian_release):
    ledger.check_content(ledger.debit(*gaussian_release(0.1)), {"age": np.arange(3.0)})
    text = json.dumps(ledger.export(), allow_nan=False)
    found = json.loads(text)
    assert found["entries"][0]["spec"]["relation"] == "replace-one"
    assert found["entries"][0]["bound"]["certificates"]
    assert found["balance"]["releases"] == 1
    with log.reading(ledger.path) as held:
        key = held.key
        rows = book.known_rows(held)
    assert len(rows) == 2
    assert not any(secret in text for secret in (key.hex(), *rows.values()))


def test_other_rows_only_warn(ledger, gaussian_release):
    ages, ill = np.array([31.0, 45.0, 62.0]), np.array([1, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            ledger.check_content(ledger.debit(*gaussian_release(0.05)), {"age": ages, "ill": ill})
    entry = ledger.debit(*gaussian_release(0.05))
    others = (
        {"age": ages + 1, "ill": 1 - ill},  # other values
        {"age": ages[::-1], "ill": np.array([0, 1, 1])},  # another order
        {"age": ages[:2], "ill": ill[:2]},  # fewer rows
        {"age": np.append(ages, 5.0), "ill": np.append(ill, 0)},  # more rows
    )
    for other in others:
        with pytest.warns(ContentWarning, match="not those of earlier"):
            ledger.check_content(entry, other)
    for column, complaint in ((np.array([object()]), "numbers or text"), (np.float64(3.0), "one length")):
        with pytest.raises(InputError, match=complaint):
            ledger.check_content(entry, {"age": column})
    with pytest.raises(InputError, match="one length"):
        ledger.check_content(entry, {})
    assert ledger.balance().releases == 3


def test_other_columns_of_the_same_rows_do_not_warn(ledger, gaussian_release):
    """A second target, another choice of columns, one column corrected: the same people."""
    generator = np.random.default_rng(0)
    table = {name: generator.normal(size=9) for name in ("age", "income", "visits")} | {"intercept": np.ones(9)}
    chosen = (("intercept", "age", "income"), ("intercept", "age", "visits"), ("income", "visits"), ("intercept",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for names in chosen:
            ledger.check_content(ledger.debit(*gaussian_release(0.05)), {name: table[name] for name in names})
        ledger.check_content(ledger.debit(*gaussian_release(0.05)), table | {"age": table["age"] + 1})
    entry = ledger.debit(*gaussian_release(0.05))
    with pytest.warns(ContentWarning, match="not those of earlier"):
        ledger.check_content(entry, {"intercept": np.ones(9), "visits": generator.normal(size=9)})


def test_a_fingerprint_differs_between_ledgers_of_the_same_rows(ledger, tmp_path):
    other = Ledger.open(tmp_path / "other", "clinic", "replace-one", 1.0, 1e-5)
    keys = [bytes.fromhex(found._standing().opening["key"]) for found in (ledger, other)]
    assert keys[0] != keys[1]
    first, second = (fingerprint(key, {"age": np.arange(3)}) for key in keys)
    assert first != second


def test_an_infinite_bound_is_refused(ledger, release_with):
    with pytest.raises(LedgerRefusal, match="inf"):
        ledger.debit(*release_with(RenyiDP((2.0,), (math.inf,))))
    assert ledger.balance().releases == 0


def test_a_relative_path_and_odd_names_work(tmp_path, monkeypatch, gaussian_release):
    monkeypatch.chdir(tmp_path)
    for name in ("plain", "sp ace", "per%20cent", "quest?ion#mark", "größe"):
        Ledger.open(name, "clinic", "replace-one", 1.0, 1e-5).debit(*gaussian_release(0.1))
        assert Ledger.at(name).balance().releases == 1
    assert sorted(os.listdir()) == sorted(["plain", "sp ace", "per%20cent", "quest?ion#mark", "größe"])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wishes=st.lists(st.floats(0.01, 0.25), min_size=1, max_size=6))
def test_spend_never_decreases_and_refused_requests_change_nothing(tmp_path_factory, gaussian_release, wishes):
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    for mu in wishes:
        before = ledger.balance()
        try:
            ledger.debit(*gaussian_release(mu))
        except LedgerRefusal:
            assert ledger.balance() == before
            assert mu > before.largest_mu * (1 - 1e-9)
        else:
            after = ledger.balance()
            assert after.releases == before.releases + 1
            assert before.spent_epsilon < after.spent_epsilon <= 1.0
            assert after.odometer_epsilon > before.odometer_epsilon
            assert after.largest_mu < before.largest_mu
            assert mu < before.largest_mu * (1 + 1e-9)


ANSWER = {"kind": "noised-answer", "query": "a", "sensitivity": 1.0}
NAMED = (
    ANSWER | {"noise": {"kind": "laplace", "scale": 50.0}},
    ANSWER | {"noise": {"kind": "discrete-laplace", "scale": 50.0}},
    {"kind": "randomised-response", "categories": 3, "truth": 0.34},
    {"kind": "selection", "method": "exponential", "sensitivity": 1.0, "scale": 100.0},
    {"kind": "sparse-vector", "sensitivity": 1.0, "positives": 1, "threshold_scale": 50, "query_scale": 100},
    {"kind": "matrix-mechanism", "steps": 64, "strategy": {"kind": "tree"}, "contribution": 1.0}
    | {"noise_multiplier": 100.0, "participation": {"scheme": "single"}},
)
CONCAVE = {"kind": "strongly-log-concave", "lipschitz": 0.2, "strong_convexity": 4.0}
BOUNDED = {"kind": "bounded", "lipschitz": 0.05, "diameter": 2.0}
NOISE = {"kind": "gaussian", "scale": 1.0}
# Posterior draws that finish.
DRAWN = (
    (CONCAVE, {"kind": "rejection", "trials": 5000, "dim": 2, "smoothness": 12.0}),
    (CONCAVE, {"kind": "perturbed", "distance": 0.01, "dim": 2, "noise": NOISE}),
    (BOUNDED, {"kind": "rejection", "trials": 5000, "dim": 2, "oscillation": 3.0}),
    (BOUNDED, {"kind": "metropolis", "steps": 5000, "dim": 2, "oscillation": 3.0, "noise": NOISE}),
)


def test_every_mechanism_is_charged_and_verified(path):
    made = Ledger.open(path, "clinic", "replace-one", 3.0, 1e-5)
    runs = [(algorithm, "all-iterates") for algorithm in NAMED]
    runs += [({"kind": "posterior-sample", "potential": law, "drawn": how}, "one-sample") for law, how in DRAWN]
    for algorithm, view in runs:
        spec = Spec.from_dict({"algorithm": algorithm, "relation": "replace-one", "view": view, "delta": 1e-5})
        made.debit(tightest(spec, 1e-5), spec)
    assert len(made.entries()) == len(runs)
    assert {found.verdict for found in made.verify().findings} == {EntryVerdict.AGREES}
