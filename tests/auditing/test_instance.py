"""From the instance of a spec to a model and neighbours."""

from typing import Any

import numpy as np
import pytest

import sordino
from sordino import InputError, Spec
from sordino.auditing.instance import audit_instance, on_table
from sordino.data import write_schema
from sordino.models import GaussianLinear, Logistic
from tests.auditing.chains import chain
from tests.data.neighbouring import are_neighbours

LINEAR: dict[str, Any] = {"kind": "synthetic", "generator": "linear", "records": 20, "features": 2, "seed": 3}


def spec(relation: str = "replace-one", **instance: Any) -> Spec:
    named = {"model": {"name": "ridge"}, "dataset": LINEAR} | instance
    return chain(step_size=0.1, relation=relation, instance=named, n=20, dim=2, gradient_sensitivity=2.0)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    "neighbour",
    [
        {"kind": "worst"},
        {"kind": "worst", "position": 4},
        {"kind": "zero", "position": 4},
        {"kind": "given", "position": 4, "features": [0.1, 0.2], "target": 0.3},
    ],
)
def test_every_pair_satisfies_the_relation(relation, neighbour):
    pairs = list(audit_instance(spec(relation, neighbour=neighbour)).pairs())
    assert pairs
    assert all(are_neighbours(pair.first, pair.second, pair.relation) for pair in pairs)
    assert all(20 in {len(pair.first), len(pair.second)} for pair in pairs)
    if "position" in neighbour:
        assert {pair.position for pair in pairs} == {4}


def test_a_removed_record_is_for_add_remove():
    pair = audit_instance(spec("add-remove", neighbour={"kind": "removed", "position": 2})).pair
    assert (len(pair.first), len(pair.second)) == (20, 19)
    with pytest.raises(InputError, match="removed"):
        audit_instance(spec(neighbour={"kind": "removed", "position": 2})).pair  # noqa: B018


def test_models_take_their_settings_and_data_their_seed():
    found = audit_instance(spec(model={"name": "ridge", "parameters": {"weight_decay": 0.5, "noise_precision": 2.0}}))
    assert found.model == GaussianLinear(weight_decay=0.5, noise_precision=2.0)
    again, other = (audit_instance(spec(dataset=LINEAR | {"seed": seed})).pair.first for seed in (3, 4))
    assert np.array_equal(found.pair.first.features, again.features)
    assert not np.array_equal(found.pair.first.features, other.features)
    logistic = audit_instance(spec(model={"name": "logistic"}, dataset=LINEAR | {"generator": "logistic"}))
    assert logistic.model == Logistic()


def test_a_file_is_read_with_its_schema(tmp_path):
    rows = audit_instance(spec()).pair.first
    lines = ["x0,x1,y", *(f"{a},{b},{t}" for (a, b), t in zip(rows.features, rows.target, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_schema(audit_instance(spec()).schema, tmp_path / "rows.schema.json")
    dataset = {"kind": "file", "path": str(tmp_path / "rows.csv"), "schema": str(tmp_path / "rows.schema.json")}
    found = audit_instance(spec(dataset=dataset))
    assert np.allclose(found.pair.first.features[5], rows.features[5])
    # Rows that are given take the place of the file's, and are no part of what is described.
    columns = {"x0": 0.5 * rows.features[:, 0], "x1": rows.features[:, 1], "y": rows.target}
    given = on_table(spec(dataset=dataset), columns)
    half = audit_instance(given)
    assert np.allclose(half.pair.first.features[5], found.pair.first.features[5] * [0.5, 1.0])
    assert "records of a table" in half.description
    with pytest.raises(InputError, match="the table that was given"):
        audit_instance(Spec.from_dict(given.to_dict()))


def test_a_table_is_given_to_a_spec_that_names_a_schema():
    with pytest.raises(InputError, match="of kind file"):
        on_table(spec(), {"x0": [0.0]})
    with pytest.raises(InputError, match="Omit the data"):
        sordino.audit("python:statistics:mean", claim={}, data={"x0": [0.0]})


@pytest.mark.parametrize(
    ("instance", "word"),
    [
        ({"model": {"name": "rigde"}}, "instance.model.name"),
        ({"model": {"name": "ridge", "parameters": {"weight": 1.0}}}, "weight_decay"),
        ({"model": {"name": "ridge", "parameters": {"weight_decay": -1.0}}}, "weight_decay"),
        ({"dataset": LINEAR | {"generator": "cubic"}}, "generator"),
        ({"dataset": LINEAR | {"records": 21}}, "20 records"),
        ({"dataset": LINEAR | {"features": 3}}, "2 parameters"),
        ({"dataset": LINEAR | {"parameters": {"noise": 0.0}}}, "noise"),
    ],
)
def test_what_does_not_fit_is_refused(instance, word):
    with pytest.raises(InputError, match=word):
        audit_instance(spec(**instance))
