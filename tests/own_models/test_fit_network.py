"""Networks: the number of examples is declared where it is private, and a release does not tell how many there are."""

import numpy as np
import pytest

from sordino import InputError, Ledger, LedgerRefusal
from sordino.algorithm.training.train import Descent, Training
from sordino.estimators.trained import fit_network
from sordino.ledger.release.document import to_document

X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
Y = X @ np.array([1.0, -1.0], np.float32)


def loss(params, example):
    x, y = example
    return (x @ params["w"] - y) ** 2


def fitted(examples, relation, **more):
    return fit_network(
        loss,
        {"w": np.zeros(2, np.float32)},
        examples,
        epsilon=2.0,
        delta=1e-5,
        relation=relation,
        rounds=2,
        clip=0.5,
        training=Training(Descent(0.5)),
        random_state=0,
        **more,
    )


class Untouched:
    """Rows of which not even the number may be asked for."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was read before the debit")

    __len__ = __iter__ = __array__ = __getitem__ = __getattr__


def test_the_number_of_examples_is_declared_under_add_remove(tmp_path):
    """Without it the spec of the release held the exact number of rows."""
    ledger = Ledger.open(tmp_path / "ledger", "digits", "add-remove", 3.0, 1e-4)
    with pytest.raises(InputError, match="Expected records, a public number, under add-remove"):
        fitted((Untouched(), Untouched()), "add-remove", ledger=ledger)
    assert ledger.balance().releases == 0


def test_no_example_is_read_that_the_ledger_does_not_cover(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", "digits", "add-remove", 1.0, 1e-4)
    with pytest.raises(LedgerRefusal):
        fitted((Untouched(), Untouched()), "add-remove", records=400, ledger=ledger)


def test_a_release_does_not_tell_how_many_examples_there_are():
    releases = [fitted((X[:rows], Y[:rows]), "add-remove", records=400).release for rows in (400, 399, 0)]
    told = [to_document(one, "") for one in releases]
    for one in told:
        one.pop("created", None)
    assert told[0]["spec"]["algorithm"]["records"] == 400
    assert told[0] == told[1] == told[2]


def test_under_replace_one_the_number_of_examples_is_public():
    assert fitted((X, Y), "replace-one").release.spec.algorithm.records == 400
    with pytest.raises(InputError, match="records to be the number of examples under replace-one, got 399"):
        fitted((X, Y), "replace-one", records=399)
    with pytest.raises(InputError, match="relation to be one of"):
        fitted((X, Y), "both", records=400)
