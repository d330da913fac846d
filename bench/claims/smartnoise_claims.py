"""SmartNoise: what its private reader and its private covariance claim, and nothing else.

Written before any hunt and the same for every version. A query on a data frame costs what the reader itself says it
costs (`get_privacy_cost`): epsilon 1 for each column that is noised, so 1 for counts and sums and 2 for an average.
Rows are the unit, bounds are declared in the metadata, and neighbours differ by one row. The covariance matrix of the
synthesizers' package takes the number of rows as public, so its neighbours have one row replaced.
"""

import importlib.util
import warnings
from pathlib import Path

FEATURE = {"low": -2.0, "high": 3.0}
NUMBERS = {"records": FEATURE, "size": [1, 6]}
GROUPS = {"records": {"values": ["a", "b", "c"]}, "size": [1, 6]}
MISSING = {"records": {"low": -2.0, "high": 3.0, "special": True}, "size": [1, 6]}
PAIRS = {"records": [{"low": -2.0, "high": 3.0}, {"low": -2.0, "high": 3.0}], "size": [3, 6]}


def claim(domain, epsilon=1.0, delta=0.0, relation="add-remove", arithmetic="real"):
    return {"epsilon": epsilon, "delta": delta, "relation": relation, "domain": domain, "arithmetic": arithmetic}


CLAIMS = {
    "count": claim(NUMBERS),
    "sum_": claim(NUMBERS),
    "average": claim(NUMBERS, 2.0),
    "sum_missing": claim(MISSING),
    "count_column_missing": claim(MISSING),
    "groups": claim(GROUPS, 1.0, 1e-2),
    "covariance": claim(PAIRS, relation="replace-one"),
    "sum_exact": claim(NUMBERS, arithmetic="exact"),
}


def _answer(query, frame, censor=False):
    import snsql
    from snsql import Privacy

    warnings.simplefilter("ignore")
    table = {
        "row_privacy": True,
        "rows": 100,
        "censor_dims": censor,
        "x": {"type": "float", "lower": 0.0, "upper": 1.0},
        "g": {"type": "string"},
    }
    reader = snsql.from_df(frame, metadata={"": {"t": {"t": table}}}, privacy=Privacy(epsilon=1.0, delta=1e-2))
    return [list(row) for row in reader.execute(query)[1:]]


def _numbers(query, table):
    import pandas

    frame = pandas.DataFrame({"x": [float(value) for value in table], "g": ["a"] * len(table)})
    return _answer(query, frame)


def count(table):
    return _numbers("SELECT COUNT(*) AS n FROM t.t", table)


def sum_(table):
    return _numbers("SELECT SUM(x) AS s FROM t.t", table)


sum_missing = sum_exact = sum_


def average(table):
    return _numbers("SELECT AVG(x) AS s FROM t.t", table)


def count_column_missing(table):
    return _numbers("SELECT COUNT(x) AS n FROM t.t", table)


def groups(table):
    import pandas

    frame = pandas.DataFrame({"x": [0.5] * len(table), "g": list(table)})
    return {row[0]: row[1] for row in _answer("SELECT g, COUNT(*) AS n FROM t.t GROUP BY g", frame, censor=True)}


_COVARIANCE = []


def _covariance():
    """The module of the covariance matrix alone: the package around it loads synthesizers that are not used here."""
    if not _COVARIANCE:
        package = importlib.util.find_spec("snsynth")
        path = Path(package.submodule_search_locations[0]) / "models" / "dp_covariance.py"
        spec = importlib.util.spec_from_file_location("dp_covariance", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _COVARIANCE.append(module)
    return _COVARIANCE[0]


def covariance(table):
    import pandas

    frame = pandas.DataFrame(table, columns=["a", "b"]).astype(float)
    bounds = pandas.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    return _covariance().DPcovariance(len(table), ["a", "b"], bounds, 1.0).release(frame)
