"""Two questions about one table are asked of the same people; another table under the same name is not."""

import warnings

import numpy as np
import pytest

from sordino import Ledger, PrivateLinearRegression
from sordino.data import Feature, Number, Schema, Target
from sordino.ledger import ContentWarning

NAMES = ("age", "income", "visits")


def asked(target: str, ledger: Ledger) -> PrivateLinearRegression:
    features = tuple(Feature(name, Number(-4.0, 4.0)) for name in NAMES if name != target)
    schema = Schema(records=400, features=features, target=Target(target, Number(-4.0, 4.0)), intercept=True)
    return PrivateLinearRegression(
        epsilon=0.3, delta=1e-6, relation="replace-one", schema=schema, method="ridge", ledger=ledger, random_state=1
    )


def table(seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.uniform(-3, 3, 400) for name in NAMES}


def test_a_second_target_of_the_same_table_does_not_warn_and_another_table_does(tmp_path):
    ledger = Ledger.open(tmp_path / "clinic.ledger", "clinic", "replace-one", 5.0, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in ("visits", "income", "age"):
            asked(target, ledger).fit(table(0))
    with pytest.warns(ContentWarning, match="not those of earlier releases"):
        asked("visits", ledger).fit(table(1))
    assert ledger.balance().releases == 4
