"""The RAND Health Insurance Experiment as shipped inside statsmodels, with a hand-declared schema."""

from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any

import numpy as np

from sordino.core.validate import InputError, one_of
from sordino.data.columns.number import Number
from sordino.data.scaling import UNSCALED
from sordino.data.schema import Schema, Target, schema_from_text
from sordino.data.sources.in_memory import from_arrays
from sordino.data.table import Table

VISITS = "mdvis"
# Two visits a week all year round.
MOST_VISITS = 104.0


@dataclass(frozen=True, eq=False)
class Loaded:
    """A table with its public schema."""

    table: Table
    schema: Schema


def rand_health(target: str = "any-visit") -> Loaded:
    """Load the 20,190 person-years; `target` is ``any-visit`` (boolean) or ``visits`` (a count).

    Needs statsmodels (extra `demo`). Bounds by definition: coinsurance is a percentage, so ln(coinsurance + 1) is at
    most ln(101), rounded up; indicators are 0 or 1, `physlm` may be an imputed fraction. The bounds of `lpi`, `fmde`,
    `disea` and the visits are round numbers above the published range of this public data set; the owner of a private
    table must take them from knowledge that does not come from its rows.
    """
    visits = one_of("target", target, ("any-visit", "visits")) == "visits"
    columns = _statsmodels_columns()
    schema = rand_health_schema()
    features = {feature.name: columns[feature.name] for feature in schema.features}
    if visits:
        schema = schema.with_target(Target(VISITS, Number(0.0, MOST_VISITS, UNSCALED)))
    values = columns[VISITS] if visits else columns[VISITS] > 0
    return Loaded(from_arrays({**features, schema.declared_target().name: values}), schema)


def rand_health_schema() -> Schema:
    """The declared schema, with the boolean target "any visit to a doctor"."""
    text = resources.files("sordino.data").joinpath("schemas", "rand_health.json").read_text(encoding="utf-8")
    return schema_from_text(text)


def _statsmodels_columns() -> dict[str, Any]:
    try:
        randhie = import_module("statsmodels.datasets.randhie")
    except ImportError:
        raise InputError(
            "Expected statsmodels, which holds the RAND health data, got no such package; "
            "install the extra 'demo' (pip install 'sordino[demo]')."
        ) from None
    frame = randhie.load_pandas().data
    return {str(name): np.asarray(frame[name]) for name in frame.columns}
