"""The committed example specs are valid, canonical, and cover every kind, scheme, relation and view."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sordino.core.bound import Relation, View
from sordino.core.spec import ALGORITHMS, NoisedSums, NoisyGradient, Scheme, Spec, json_schema, read_spec
from sordino.core.spec.chain import OWN_PLACES

FOLDER = Path(__file__).parents[3] / "examples" / "specs"
PATHS = sorted(FOLDER.glob("*.json"))
RUNS = [run for path in PATHS for run in read_spec(path).runs()]


def test_every_example_is_in_canonical_form_and_accepted_by_the_schema() -> None:
    schema, texts = Draft202012Validator(json_schema()), {path: path.read_text(encoding="utf-8") for path in PATHS}
    assert [path.stem for path, text in texts.items() if read_spec(path).to_json() != text] == []
    assert [path.stem for path, text in texts.items() if not schema.is_valid(json.loads(text))] == []


def test_the_table_lists_every_example() -> None:
    listed = {
        line.split("`")[1] for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines() if "`" in line
    }
    assert listed == {path.name for path in PATHS}


def test_every_kind_has_an_example() -> None:
    found = {type(read_spec(path).algorithm) for path in PATHS}
    assert found == set(ALGORITHMS.table.values())


def test_every_scheme_has_an_example_under_every_relation_it_is_valid_for() -> None:
    found = {(run.algorithm.batch.scheme, run.relation) for run in RUNS if isinstance(run.algorithm, NoisyGradient)}
    both = {(scheme, relation) for scheme in OWN_PLACES for relation in Relation}
    assert found >= both | {(scheme, Relation.REPLACE_ONE) for scheme in Scheme}


def test_every_view_and_every_sampling_has_an_example() -> None:
    assert {run.view for run in RUNS} == set(View)
    assert {run.algorithm.sampling.scheme for run in RUNS if isinstance(run.algorithm, NoisedSums)} == set(Scheme)


@pytest.mark.parametrize("name", ["golden-poisson", "golden-poisson-replace-one"])
def test_the_golden_case_has_rate_one_percent_and_noise_multiplier_one(name: str) -> None:
    spec: Spec = read_spec(FOLDER / f"{name}.json")
    chain = spec.algorithm
    assert isinstance(chain, NoisyGradient)
    assert spec.problem is not None
    assert spec.problem.gradient_bound is not None
    (step,) = set(chain.step_size.values(1000))
    (scale,) = set(chain.noise.scale.values(1000))
    assert chain.rate(spec.n) == 0.01
    assert scale * chain.divisor(spec.n) / (step * spec.problem.gradient_bound.value) == 1.0
    assert (chain.steps, spec.delta) == (1000, 1e-5)
