"""The JSON Schema that the declarations generate is a schema in good standing."""

import json

from jsonschema import Draft202012Validator

from sordino.core.spec import ALGORITHMS, json_schema
from sordino.core.spec.fields import Section


def sections(base: type[Section]) -> list[type[Section]]:
    return [found for child in base.__subclasses__() for found in (child, *sections(child))]


def test_the_schema_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_no_two_sections_share_a_name() -> None:
    names = [section.__name__ for section in sections(Section)]
    assert len(names) == len(set(names))


def test_every_algorithm_kind_is_defined() -> None:
    defined = json_schema()["$defs"]
    for word, section in ALGORITHMS.table.items():
        assert defined[section.__name__]["properties"]["kind"] == {"const": word}
        assert defined[section.__name__]["additionalProperties"] is False


def test_a_sensitivity_is_described_as_one_over_any_two_records() -> None:
    described = json.dumps(json_schema()["$defs"]["Problem"]["properties"]["gradient_sensitivity"])
    assert "any two records" in described
