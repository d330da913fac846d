"""Under add-remove a table without records is answered as one with a record is: with noise, and without a complaint.

Whether the only record is there is what the relation hides; an exception, another shape or another setting would tell.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino import estimators
from sordino.cli import main
from sordino.core.spec import Scheme, Spec
from sordino.data import Boolean, Feature, Number, Schema, Target, write_schema
from sordino.fitting.tasks.base import TASKS
from sordino.mechanisms import SeededRandomness, run
from sordino.models import Logistic

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "add-remove", "random_state": 0}
RECORDS = 5000


def bounds(**more):
    return estimators.ArrayBounds(-1, 1, records=RECORDS, **more)


KINDS = {
    "regression": (estimators.PrivateLinearRegression, {}, bounds(target=(-1, 1))),
    "robust-regression": (estimators.PrivateRobustRegression, {}, bounds(target=(-1, 1))),
    "count-regression": (estimators.PrivatePoissonRegression, {}, bounds(target=(0, 9))),
    "hazard-regression": (
        estimators.PrivateCoxRegression,
        {"time": 0, "bins": 2},
        estimators.ArrayBounds([0, -1], 1, records=RECORDS, target=(0, 1)),
    ),
    "classification": (estimators.PrivateLogisticRegression, {}, bounds(classes=(0, 1))),
    "network-regression": (estimators.PrivateBayesianNetworkRegressor, {"hidden": (3,)}, bounds(target=(-1, 1))),
    "network-classification": (estimators.PrivateBayesianNetworkClassifier, {"hidden": (3,)}, bounds(classes=(0, 1))),
    "mixture": (estimators.PrivateGaussianMixture, {"components": 2, "spread": 0.3}, bounds()),
}
CASES = [(task.word, name) for task in TASKS.values() for name in task.methods]


def fitted(task, name, rows, **more):
    kind, settings, schema = KINDS[task]
    X, y = np.full((rows, 2), 0.5), np.ones(rows, int) if TASKS[task].outcome else None
    return kind(schema=schema, method=name, **settings, **BUDGET | more).fit(X, y).release_


# Networks of classes by the same method stay with the fast tests.
TWIN = ("network-regression", "dp-vi")


@pytest.mark.parametrize(
    ("task", "name"),
    [
        pytest.param(task, name, id=f"{task}-{name}", marks=pytest.mark.slow if (task, name) == TWIN else ())
        for task, name in CASES
    ],
)
def test_every_method_answers_for_no_records_what_it_answers_for_one(task, name):
    none, one = (fitted(task, name, rows) for rows in (0, 1))
    assert none.spec == one.spec
    assert {key: (value.shape, value.dtype) for key, value in none.arrays.items()} == {
        key: (value.shape, value.dtype) for key, value in one.arrays.items()
    }
    assert all(np.isfinite(value).all() for value in none.arrays.values())
    assert set(none.settings) == set(one.settings)


def test_an_empty_array_under_replace_one_is_still_refused():
    with pytest.raises(ValueError, match="0"):
        estimators.PrivateLinearRegression(schema=bounds(target=(-1, 1)), **(BUDGET | {"relation": "replace-one"})).fit(
            np.zeros((0, 2)), []
        )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_line_fits_a_table_without_records(tmp_path, capsys, ending):
    schema = Schema(RECORDS, (Feature("age", Number(0, 100)),), Target("ill", Boolean()), True)
    write_schema(schema, tmp_path / "schema.json")
    answers = []
    for rows in (0, 1):
        table = tmp_path / f"rows{rows}.{ending}"
        if ending == "csv":
            table.write_text("age,ill\n" + "40,true\n" * rows)
        else:
            columns = {"age": pa.array([40.0] * rows, pa.float64()), "ill": pa.array([True] * rows, pa.bool_())}
            pq.write_table(pa.table(columns), table)
        arguments = ("--epsilon", "1", "--delta", "1e-6", "--relation", "add-remove", "--out", f"{tmp_path}/r{rows}")
        code = main(["fit", "logistic", str(table), "--schema", f"{tmp_path}/schema.json", *arguments, "--json"])
        streams = capsys.readouterr()
        answers.append((code, streams.err.replace(f"r{rows}", "r"), set(json.loads(streams.out))))
    assert answers[0] == answers[1]
    assert answers[0][0] == 0


def chain_spec(scheme):
    run = {"kind": "noisy-gradient", "steps": 6, "step_size": 0.5, "noise": {"kind": "gaussian", "scale": 0.1}}
    run["batch"] = {"scheme": scheme} | ({} if scheme == Scheme.FULL else {"size": 2})
    run["clipping"] = {"kind": "norm", "bound": 1.0}
    stated = {"problem": {"n": 4, "dim": 2}, "relation": "add-remove", "view": "last-iterate"}
    return Spec.from_dict({"algorithm": run, **stated})


@pytest.mark.parametrize("scheme", [Scheme.FULL, Scheme.POISSON])
def test_a_chain_without_records_is_its_prior_and_noise(scheme):
    spec, empty = chain_spec(scheme), (np.zeros((0, 2)), np.zeros(0))
    model, zeros = Logistic(weight_decay=0.1), (np.zeros((4, 2)), np.ones(4))
    silent = run(spec, model, *zeros, SeededRandomness(1)).iterates  # rows of zeros have no gradient
    np.testing.assert_array_equal(run(spec, model, *empty, SeededRandomness(1)).iterates, silent)
