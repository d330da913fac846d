"""The unsafe direction, tried on purpose: spends under two names, prices from another book, amounts that are none."""

import math
import os
import shutil
from dataclasses import replace

import pytest

from sordino import InputError, Relation
from sordino.core.guarantee import ApproxDP, GaussianDP, PureDP, RenyiDP, TotalVariation
from sordino.ledger import Ledger, LedgerError, LedgerRefusal, access, log
from sordino.ledger.privacy_filter import Charge


def test_a_symbolic_link_is_the_ledger_it_points_to(tmp_path, gaussian_release):
    for name in ("real", "elsewhere"):
        (tmp_path / name).mkdir()
    path, link = tmp_path / "real" / "ledger", tmp_path / "elsewhere" / "link"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    link.symlink_to(path)
    ledger.debit(*gaussian_release(0.1))
    assert Ledger.at(link).balance().releases == 1
    assert Ledger(link).debit(*gaussian_release(0.1)).sequence == 2
    assert ledger.balance().releases == 2
    with log.writing(link, 1.0), pytest.raises(LedgerError, match="kept it locked"):
        Ledger(path, timeout=0.02).debit(*gaussian_release(0.1))
    assert sorted(one.name for one in link.parent.iterdir()) == ["link"]
    assert sorted(one.name for one in path.parent.iterdir()) == ["ledger"]


def test_two_names_of_one_file_are_refused(tmp_path, gaussian_release):
    path, other = tmp_path / "ledger", tmp_path / "other"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    ledger.debit(*gaussian_release(0.1))
    os.link(path, other)
    for name in (path, other):
        for use in (Ledger(name).balance, lambda name=name: Ledger(name).debit(*gaussian_release(0.1))):
            with pytest.raises(LedgerError, match="2 hard links"):
                use()
    other.unlink()
    assert ledger.balance().releases == 1


def test_an_opening_killed_at_its_last_step_leaves_a_ledger_that_works(tmp_path, gaussian_release):
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    os.link(path, tmp_path / ".ledger.x7ab_k20.opening")  # the draft, linked to its name and not yet removed
    (tmp_path / ".ledger.note").write_text("somebody else's")
    assert ledger.debit(*gaussian_release(0.1)).sequence == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == [".ledger.note", "ledger"]


def test_a_link_that_somebody_made_is_never_deleted(tmp_path, gaussian_release):
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 1.0, 1e-5)
    for end in ("backup", "backup01", "original", "opening", "my copy.opening", "mine.draft", ""):
        link = tmp_path / f".ledger.{end}"
        os.link(ledger.path, link)
        for refused in (ledger.balance, lambda: ledger.debit(*gaussian_release(0.1))):
            with pytest.raises(LedgerError, match="2 hard links"):
                refused()
        link.unlink()


def test_a_release_priced_by_one_book_is_not_entered_into_another(tmp_path, gaussian_release, monkeypatch):
    """The file is replaced, between price and entry, by a ledger under the other relation."""
    path, other = tmp_path / "ledger", tmp_path / "other"
    ledger = Ledger.open(path, "clinic", "add-remove", 1.0, 1e-5)
    Ledger.open(other, "clinic", "replace-one", 1.0, 1e-5)
    bound, spec = gaussian_release(0.1)
    add_remove = Relation.ADD_REMOVE
    release = replace(bound, relation=add_remove), spec.with_values({"relation": add_remove.value})
    begun = log.writing

    def swapped(*arguments):
        os.replace(other, path)
        monkeypatch.setattr(log, "writing", begun)
        return begun(*arguments)

    monkeypatch.setattr(log, "writing", swapped)
    with pytest.raises(LedgerError, match="was replaced while it was in use"):
        ledger.debit(*release)
    assert ledger.balance().releases == 0
    assert ledger.balance().budget.relation is Relation.REPLACE_ONE


@pytest.mark.parametrize("moment", ["_flocked", "write_all", "flush"])
def test_a_ledger_exchanged_while_it_is_held_grants_nothing(tmp_path, gaussian_release, monkeypatch, moment):
    path, other = tmp_path / "ledger", tmp_path / "other"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    shutil.copy2(path, other)
    real = getattr(access, moment)

    def exchanged(*arguments):
        if other.exists():
            os.replace(other, path)
        return real(*arguments)

    monkeypatch.setattr(access, moment, exchanged)
    with pytest.raises(LedgerError, match="was replaced while it was in use"):
        ledger.debit(*gaussian_release(0.1))
    assert not other.exists()
    assert ledger.balance().releases == 0


def test_releases_that_may_publish_everything_are_refused(path, release_with):
    ledger = Ledger.open(path, "clinic", "replace-one", 10.0, 1e-3, reserve=0.9)
    for guarantee in (TotalVariation(1.0), ApproxDP(0.1, 1.0), ApproxDP(700.0, 0.0), PureDP(1e6)):
        with pytest.raises((LedgerRefusal, InputError)):
            ledger.debit(*release_with(guarantee))
    assert ledger.balance().releases == 0


STORED = {"amounts": [0.1], "failure": 0.0, "alone": None, "plan": ""}


@pytest.mark.parametrize("amount", [math.nan, -1e-300, -1.0, -math.inf])
def test_amounts_that_would_give_budget_back_are_refused(amount):
    charges = (lambda value: Charge((0.1, value), 0.0), lambda value: Charge((0.1,), value))
    guarantees = (GaussianDP, PureDP, TotalVariation, lambda value: RenyiDP((2.0,), (value,)))
    for kind in (*charges, *guarantees, lambda value: Charge.from_dict(STORED | {"failure": value})):
        with pytest.raises(InputError):
            kind(amount)


@pytest.mark.parametrize("failure", [math.inf, None, "0", True])
def test_a_failure_is_a_finite_number(failure):
    with pytest.raises(InputError):
        Charge.from_dict(STORED | {"failure": failure})
    if failure == math.inf:
        with pytest.raises(InputError, match="finite"):
            Charge((0.1,), failure)


def test_a_refusal_says_nothing_of_the_key(ledger, gaussian_release, release_with):
    with log.reading(ledger.path) as held:
        key = held.key
    with pytest.raises(LedgerRefusal) as refused:
        ledger.debit(*release_with(PureDP(40.0)))
    assert key.hex() not in str(refused.value) + repr(refused.value.balance)
    assert repr(key) not in repr(ledger)
