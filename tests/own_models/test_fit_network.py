"""Networks: the number of examples is declared where it is private, and a release does not tell how many there are."""

from contextlib import nullcontext

import numpy as np
import pytest

from sordino import InputError, Ledger, LedgerRefusal, fit_network, write_release
from sordino.ledger.release.document import to_document
from sordino.mechanisms.networks.training import Descent, Training

X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
Y = X @ np.array([1.0, -1.0], np.float32)


def loss(params, example):
    x, y = example
    return (x @ params["w"] - y) ** 2


def fitted(examples, relation, clip=0.5, step=0.5, **more):
    return fit_network(
        loss,
        {"w": np.zeros(2, np.float32)},
        examples,
        epsilon=2.0,
        delta=1e-5,
        relation=relation,
        rounds=2,
        clip=clip,
        training=Training(Descent(step)),
        random_state=0,
        **more,
    )


class Untouched:
    """Rows of which not even the number may be asked for."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was read before the debit")

    __len__ = __iter__ = __array__ = __getitem__ = __getattr__


class Typed(Untouched):
    """Rows of which nothing but type and shape may be asked for."""

    def __init__(self, *shape):
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(np.float32)


def test_the_number_of_examples_is_declared_under_add_remove(tmp_path):
    """Without it the spec of the release held the exact number of rows."""
    ledger = Ledger.open(tmp_path / "ledger", "digits", "add-remove", 3.0, 1e-4)
    with pytest.raises(InputError, match="Declare records, a public number"):
        fitted((Untouched(), Untouched()), "add-remove", ledger=ledger)
    assert ledger.balance().releases == 0


def test_no_example_is_read_that_the_ledger_does_not_cover(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", "digits", "add-remove", 1.0, 1e-4)
    with pytest.raises(LedgerRefusal):
        fitted((Typed(400, 2), Typed(400)), "add-remove", records=400, ledger=ledger)


def test_a_release_does_not_tell_how_many_examples_there_are():
    releases = [fitted((X[:rows], Y[:rows]), "add-remove", records=400).release for rows in (400, 399, 0)]
    told = [to_document(one, "") for one in releases]
    for one in told:
        one.pop("created", None)
    assert told[0]["spec"]["algorithm"]["records"] == 400
    assert told[0] == told[1] == told[2]


def test_weights_that_are_not_finite_end_in_a_sentence_and_not_in_a_folder_that_cannot_be_read():
    with pytest.raises(InputError, match="The run diverged"):
        fitted((X, 1e4 * Y), "replace-one", clip=100.0, step=3e38)


def test_under_replace_one_the_number_of_examples_is_public():
    assert fitted((X, Y), "replace-one").release.spec.algorithm.records == 400
    with pytest.raises(InputError, match="records to be the number of examples under replace-one, got 399"):
        fitted((X, Y), "replace-one", records=399)
    with pytest.raises(InputError, match="relation to be one of"):
        fitted((X, Y), "both", records=400)


PUBLIC = {
    "another number of columns": (np.hstack([X, X]), Y),
    "an array without numbers": (X.astype(object), Y),
    "text": (X.astype(str), Y),
    "lists": (X.tolist(), Y.tolist()),
    "arrays of several lengths": (X, Y[:-1]),
    "another tree": {"x": X, "y": Y},
    "nothing": (X, None),
}


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("examples", PUBLIC.values(), ids=PUBLIC)
def test_types_and_shapes_are_refused_before_the_debit(examples, relation, tmp_path):
    """The ledger was debited for a loss that does not fit its examples."""
    ledger = Ledger.open(tmp_path / "ledger", "digits", relation, 3.0, 1e-4)
    with pytest.raises(InputError, match=r"to be arrays with one first axis|fit each other") as refused:
        fitted(examples, relation, records=400, ledger=ledger)
    assert "399" not in str(refused.value)
    assert not ledger.entries()


def test_what_canaries_do_not_go_with_is_refused_before_the_debit(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", "digits", "replace-one", 3.0, 1e-4)
    drawn = {"scheme": "without-replacement", "size": 40}
    with pytest.raises(InputError, match="full or poisson for canaries"):
        fitted((X, Y), "replace-one", canaries=40, sampling=drawn, ledger=ledger)
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"loss": np.float32(0.5)}, {"loss": 0.5}),
        ({"losses": np.ones(2)}, {"losses": [1.0, 1.0]}),
        ({"loss": np.nan}, None),
        ({"loss": {1, 2}}, None),
        ({1: 0.5}, None),
        (None, None),
    ],
    ids=str,
)
def test_what_a_measure_returns_loses_no_release_that_was_paid_for(said, kept, tmp_path):
    """A measure that returned a number of NumPy ended in a TypeError after the debit."""
    ledger = Ledger.open(tmp_path / "ledger", "digits", "replace-one", 9.0, 1e-3)
    caught = nullcontext() if kept else pytest.warns(UserWarning, match="The release has no measurements")
    with caught:
        found = fitted((X, Y), "replace-one", ledger=ledger, measure=lambda weights: said)
    assert found.release.settings.get("measured") == kept
    assert write_release(tmp_path / "release", found.release)
    assert ledger.entries()[0].release is not None
