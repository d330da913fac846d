"""Callables and programs that hang, die, remember or return what is no data: handled, or refused in one sentence."""

import math
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sordino
from sordino.auditing.hunter.domain import PrivacyClaim, neighbours
from sordino.auditing.hunter.processes import (
    CallOutput,
    HunterOptions,
    HunterTarget,
    Workers,
    dependence,
    refuse_seeded,
)
from sordino.auditing.hunter.search import hunt
from sordino.core.validate import InputError
from tests.auditing.hunter import fragile, mechanisms
from tests.auditing.hunter.in_process import InProcess

FILE = str(Path(mechanisms.__file__))
DOMAIN = {"records": {"low": 0, "high": 1}, "size": [0, 5]}
CLAIM = {"epsilon": 1.0, "delta": 1e-6, "relation": "add-remove", "domain": DOMAIN}


def outcome(name, *, calls=400, call_seconds=20.0, claim=CLAIM):
    options = HunterOptions(calls=calls, seed=1, call_seconds=call_seconds)
    file = fragile.__file__ if hasattr(fragile, name) else FILE
    return hunt(f"python:{file}:{name}", claim, options)


REFUSED = {
    "hangs": "did not end within 0.2 s",
    "dies": "died (killed by SIGABRT) in 24 calls",
    "keeps_first": "one answer for all calls in a process",
    "has_seed": "the same outputs in every process",
    "returns_object": "an object of type object",
    "returns_generator": "an object of type generator",
    "NOT_CALLABLE": "NOT_CALLABLE is no callable",
    "missing": "AttributeError",
    "ends": "every call failed in the same way: raised SystemExit: 3",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_audit_can_work_with_is_refused_in_one_sentence(name):
    with pytest.raises(InputError) as refused:
        outcome(name, call_seconds=0.2 if name == "hangs" else 20.0)
    assert REFUSED[name] in str(refused.value)
    assert "\n" not in str(refused.value)


class Coins:
    """Two processes whose first eight answers agree by chance, and later ones only where they are seeded."""

    def __init__(self, *, seeded):
        self.seeded = seeded

    def run_in_each(self, table, calls):
        del table
        first = [k % 2 for k in range(calls)]
        return [first, first if self.seeded or calls == 8 else first[::-1]]


def test_answers_of_few_values_that_agree_by_chance_are_asked_for_again():
    refuse_seeded(Coins(seeded=False), (), "a coin")
    with pytest.raises(InputError, match="the same outputs in every process"):
        refuse_seeded(Coins(seeded=True), (), "a coin")


@pytest.mark.parametrize("name", ["drifts", "remembers"])
def test_calls_that_depend_on_earlier_ones_are_refused(name):
    with pytest.raises(InputError, match="keeps state between calls"):
        outcome(name, calls=3000)


@pytest.mark.slow
def test_a_process_that_dies_on_one_table_only_tells_it_from_its_neighbour():
    report = outcome("dies_on_three", calls=1000)
    assert report.violated
    assert 3 in map(len, report.refutation.pair)


@pytest.mark.parametrize("name", ["changes_its_argument", "prints", "random_length"])
def test_odd_but_private_callables_are_audited(name):
    assert not outcome(name, calls=600).violated


def independent(rng, count):
    return [(int(rng.integers(3)), CallOutput("float", (float(rng.normal()),), ())) for _ in range(count)]


def test_independent_calls_are_not_refused():
    """Six deviations: once in a thousand million; three hundred histories of three tables."""
    rng = np.random.default_rng(5)
    assert max(dependence(independent(rng, 300)) for _ in range(100)) < 6.0


def program(tmp_path, body):
    path = tmp_path / "mechanism"
    path.write_text(f"#!/bin/sh\nread line\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"program:{path}"


def test_a_program_answers_a_line_with_a_line(tmp_path):
    report = hunt(program(tmp_path, "echo ${#line}"), CLAIM, HunterOptions(calls=800, seed=1))
    assert report.violated
    assert "subprocess" in report.script


def test_a_program_that_fails_is_an_output_and_one_that_speaks_no_json_is_refused(tmp_path):
    target = HunterTarget.parse(program(tmp_path, '[ "$line" != "[]" ] || exit 3; echo {'))
    with Workers(target, HunterOptions(processes=1)) as workers:
        assert workers.run([()])[0].shape == "raised RuntimeError: exit code 3"
        with pytest.raises(InputError, match="one line of JSON"):
            workers.run([(1.0,)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python:statistics", "python:module:callable"),
        ("python:no/such/file.py:f", "names no Python file"),
        ("program:no-such-program", "a program that can be run"),
        ("python::f", "python:module:callable"),
        ("ruby:x:y", "python:module:callable"),
    ],
)
def test_targets_that_name_nothing_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        HunterTarget.parse(text)


def test_a_function_without_a_claim_is_refused():
    with pytest.raises(InputError, match="This callable has no claim"):
        sordino.audit(mechanisms.prints)


def test_outputs_are_the_same_in_a_worker_and_here():
    tables = [(0.5, 1.0), (math.nan,), ()]
    here = InProcess(mechanisms.echo).run(tables)
    with Workers(HunterTarget("echo", "file", FILE, "echo"), HunterOptions(processes=1)) as workers:
        assert repr(workers.run(tables)) == repr(here)


CLAIMS_REFUSED = [
    ("{", "a JSON object"),
    ({"epsilon": 1.0, "relation": "add-remove"}, "domain is missing"),
    ({"epsilon": 1.0, "domain": DOMAIN}, "relation is missing"),
    (CLAIM | {"relation": "neighbours"}, "relation"),
    (CLAIM | {"epsilon": -1}, "epsilon"),
    (CLAIM | {"delta": 1.0}, "delta"),
    (CLAIM | {"more": 1}, "keys"),
    (CLAIM | {"domain": {"records": {"low": 1, "high": 0}}}, "high"),
    (CLAIM | {"domain": {"records": []}}, "one field"),
    (CLAIM | {"domain": {"records": {"values": [1]}}}, "values"),
    (CLAIM | {"domain": {"records": {"low": 0, "top": 1}}}, "keys"),
    (CLAIM | {"domain": {"records": {}, "size": [3]}}, "size"),
    (CLAIM | {"domain": {"records": {}, "size": [3, 3]}}, "sizes that differ"),
    (CLAIM | {"arithmetic": "fuzzy"}, "arithmetic"),
]


@pytest.mark.parametrize(("claim", "words"), CLAIMS_REFUSED)
def test_claims_that_say_too_little_are_refused(claim, words):
    with pytest.raises(InputError, match=words):
        PrivacyClaim.parse(claim)


DOMAINS = [
    {"records": {"low": 0, "high": 1, "special": True}, "size": [0, 5]},
    {"records": [{"low": None}, {"values": ["a", "b"]}, {"low": -3, "high": 4, "whole": True}], "size": [2, 9]},
    {"records": [{"values": [0, 1]}] * 5, "size": [1, 2]},
]  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_pairs_are_neighbours_of_the_domain(domain, relation):
    claim = PrivacyClaim.parse(CLAIM | {"domain": domain, "relation": relation})
    pairs = neighbours(claim, np.random.default_rng(1))
    assert len(pairs) > 10
    low, high = domain["size"]
    for first, second in (pair.tables for pair in pairs):
        assert all(low <= len(table) <= high for table in (first, second))
        if relation == "replace-one":
            assert sum(repr(one) != repr(other) for one, other in zip(first, second, strict=True)) == 1
        else:
            assert len(second) == len(first) + 1
            left = [repr(one) for one in second]
            for one in first:
                left.remove(repr(one))
            assert len(left) == 1
    if domain["records"] == {"low": 0, "high": 1, "special": True}:
        tables = [table for pair in pairs for table in pair.tables]
        assert {"nan", "inf", "0.0", "1.0", "5e-324"} <= {repr(value) for table in tables for value in table}
        assert () in tables or relation == "replace-one"


def test_the_counterexample_runs_by_itself(tmp_path):
    report = outcome("telling_exception", calls=4000)
    script = tmp_path / "counterexample.py"
    script.write_text(report.script)
    said = subprocess.run(
        [sys.executable, "-I", str(script)], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60
    ).stdout
    assert "claimed epsilon: 1.0" in said
    assert float(said.split("proved:")[1]) > 1.0
