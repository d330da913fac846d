"""What a person keeps beside a ledger is theirs."""

import os

import pytest

from sordino.ledger import Ledger
from sordino.ledger.budget import LedgerError


@pytest.mark.parametrize("name", [".ledger.original", ".ledger.backup01", ".ledger.mine.draft", ".ledger."])
def test_a_link_that_a_person_made_is_refused_and_not_deleted(name, tmp_path, gaussian_release):
    path, own = tmp_path / "ledger", tmp_path / name
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    os.link(path, own)
    with pytest.raises(LedgerError, match="2 hard links"):
        ledger.debit(*gaussian_release(0.1))
    assert own.exists()
