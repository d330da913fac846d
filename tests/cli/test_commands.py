"""`sordino certify` and `sordino calibrate`: exit codes, one line on stderr for bad input, JSON, table and figure."""

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sordino.cli import main
from sordino.core.spec import read_spec
from tests.cli.console import answer, refusal, shown

SPECS = Path(__file__).parents[2] / "examples" / "specs"
GOLDEN = str(SPECS / "golden-poisson.json")
FULL = SPECS / "full-last-iterate.json"


def test_certify_answers_the_golden_case_in_the_contracts_shape(capsys):
    found = answer(capsys, "certify", GOLDEN)
    assert set(found) == {"relation", "view", "delta", "tightest", "bounds", "inapplicable"}
    assert (found["relation"], found["view"], found["delta"]) == ("add-remove", "all-iterates", 1e-5)
    assert found["tightest"]["theorem"] == "composition.subsampled-poisson"
    # Reference: 1.8282 by three independent implementations; ours is an upper bound within 1e-3.
    assert 1.8282 <= found["tightest"]["epsilon"] <= 1.8282 * 1.001
    for bound in found["bounds"]:
        assert {"theorem", "epsilon", "delta_at_zero", "guarantee", "citation", "status"} <= set(bound)
    assert all(set(item) == {"theorem", "reason"} for item in found["inapplicable"])
    loose = answer(capsys, "certify", GOLDEN, "--delta", "1e-3")
    assert loose["delta"] == 1e-3
    assert loose["tightest"]["epsilon"] < 1.8282


def test_certify_names_a_unit_that_is_not_a_record(capsys):
    path = SPECS / "second-moments-and-gradients.json"
    assert answer(capsys, "certify", path)["unit"] == {"column": "patient", "most_records": 12}
    assert "unit one value of 'patient'" in shown(capsys, "certify", path)


@pytest.mark.every(8)
@pytest.mark.parametrize("path", sorted(SPECS.glob("*.json")), ids=lambda path: path.stem)
def test_certify_answers_every_example_with_valid_json(capsys, path):
    found = answer(capsys, "certify", path, "--delta", "1e-5")
    epsilons = [bound["epsilon"] for bound in found["bounds"] if bound["epsilon"] is not None]
    assert all(math.isfinite(epsilon) and epsilon >= 0 for epsilon in epsilons)
    assert (found["tightest"] or {"epsilon": None})["epsilon"] == min(epsilons, default=None)


def test_the_choice_of_a_composites_theorems_follows_the_delta_flag(tmp_path, capsys):
    """Total variations of 4e-5 each: free together at the spec's delta 1e-4, and useless at the flag's 1e-6."""
    chain = {"kind": "noisy-gradient", "steps": 100, "step_size": 1.0, "noise": {"kind": "gaussian", "scale": 40.0}}
    problem = {"n": 1000, "dim": 1, "gradient_sensitivity": 2.0, "strong_convexity": 0.5, "smoothness": 0.5}
    part = {"algorithm": chain | {"batch": {"scheme": "full"}}, "problem": problem}
    path = tmp_path / "spec.json"
    whole = {"algorithm": {"kind": "composite", "parts": [part, part]}, "relation": "replace-one"}
    path.write_text(json.dumps({**whole, "view": "last-iterate", "delta": 1e-4}), encoding="utf-8")
    assert answer(capsys, "certify", path)["tightest"]["epsilon"] == 0.0
    assert 0.0 < answer(capsys, "certify", path, "--delta", "1e-6")["tightest"]["epsilon"] < 0.01


def test_the_table_names_winner_losers_and_near_misses_and_the_rest_with_all(capsys):
    short, whole = shown(capsys, "certify", GOLDEN), shown(capsys, "certify", GOLDEN, "--all")
    assert short.index("composition.subsampled-poisson") < short.index("composition.renyi")
    assert "Tightest: composition.subsampled-poisson" in short
    assert "gradient_bound = 1 (declared" in short
    names = [one["theorem"] for one in answer(capsys, "certify", GOLDEN)["inapplicable"]]
    assert all(f"  {name}: " in whole for name in names)
    # Its scope holds such runs, and clipping keeps it from applying; matrices are about other runs.
    assert "Near miss, shifted.affine: norm clipping keeps strong_convexity" in short
    assert "matrix.gaussian" not in short
    listed = sum(f"Near miss, {name}: " in short for name in names)
    assert 0 < listed < len(names) / 4
    assert f"{len(names) - listed} theorems about other runs" in short


def test_calibrate_writes_a_spec_that_certify_accepts_at_the_target(capsys, tmp_path):
    target = tmp_path / "calibrated.json"
    found = answer(capsys, "calibrate", GOLDEN, "--epsilon", "1", "--output", target)
    assert found["over"] == "noise"
    assert json.loads(target.read_text()) == found["spec"]
    again = answer(capsys, "certify", target)
    assert again["tightest"]["epsilon"] == found["certificate"]["tightest"]["epsilon"] <= 1.0


def test_version_and_no_arguments(capsys):
    assert shown(capsys, "--version").strip() == "0.1.0"
    assert "certify" in shown(capsys)


BAD_KEYS = [
    ({"frobnicate": 1}, "frobnicate"),
    ({"delta": 1.5}, "delta"),
    ({"delta": "small"}, "delta"),
    ({"relation": None}, "relation"),
    ({"view": None}, "view"),
    ({"view": "one-sample"}, "view"),
    ({"algorithm.steps": -3}, "algorithm.steps"),
    ({"algorithm.steps": 2.5}, "algorithm.steps"),
    ({"algorithm.noise.scale": 0}, "algorithm.noise.scale"),
    ({"algorithm.batch.size": 10**6}, "algorithm.batch.size"),
    ({"problem.n": None}, "problem.n"),
    ({"problem.gradient_bound": -1.0}, "gradient_bound"),
    ({"problem.strong_convexity": 2.0, "problem.smoothness": 1.0}, "strong_convexity"),
    ({"algorithm.batch.scheme": "cyclic", "algorithm.batch.rate": 0.1}, "rate"),
]


def test_a_bad_spec_is_one_line_that_names_the_key(capsys, tmp_path):
    file = tmp_path / "spec.json"
    for change, named in BAD_KEYS:
        spec = json.loads(Path(GOLDEN).read_text())
        for path, value in change.items():
            *parents, last = path.split(".")
            target = spec
            for parent in parents:
                target = target[parent]
            target[last] = value
        file.write_text(json.dumps(spec))
        line = refusal(capsys, "certify", file, "--json")
        assert named in line
        assert line.endswith(".\n")
    for text in ("", "[1, 2]", "{", '{"delta": NaN}', "null", '{"a": 1, "a": 2}', "\x00"):
        file.write_text(text)
        refusal(capsys, "certify", file)


def test_unknown_commands_options_and_values_are_one_line(capsys, tmp_path):
    unwritable, calibrate = tmp_path / "missing" / "out.json", ("calibrate", GOLDEN, "--epsilon", "1")
    for words, said in (
        (("frobnicate",), "frobnicate"),
        (("certify", GOLDEN, "--frob"), "--frob"),
        (("calibrate", GOLDEN), "epsilon"),
        (("calibrate", GOLDEN, "--epsilon", "-1"), "epsilon"),
        ((*calibrate, "--over", "magic"), "over"),
        ((*calibrate, "--output", unwritable), "out.json"),
        (("certify", GOLDEN, "--delta", "0"), "delta"),
        (("certify", tmp_path / "nowhere.json"), "nowhere"),
        (("certify", FULL, "--plot", tmp_path / "out.svg.pdf"), "ends in .svg"),
        (("certify", FULL, "--plot", tmp_path / "missing" / "out.svg"), "writable place"),
    ):
        assert said in refusal(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_spec_without_delta_asks_for_one(capsys, tmp_path):
    spec = json.loads(Path(GOLDEN).read_text())
    del spec["delta"]
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert "has no delta" in refusal(capsys, "certify", tmp_path / "spec.json")
    assert answer(capsys, "certify", tmp_path / "spec.json", "--delta", "1e-5")["delta"] == 1e-5


def test_certify_says_what_only_the_caller_can_check(tmp_path, capsys):
    """A declared sensitivity under without-replacement is over any two records; clipping answers that by itself."""
    clipped = read_spec(SPECS / "without-replacement-all-iterates.json")
    declared = clipped.with_values({"algorithm.clipping": None, "problem.gradient_bound": None})
    path = tmp_path / "spec.json"
    for spec, asked in ((clipped, False), (declared, True)):
        path.write_text(spec.to_json(), encoding="utf-8")
        text = " ".join(shown(capsys, "certify", path).split())
        assert ("Check this yourself, because no program can:" in text) is asked
        assert ("any two records there may be, not only of a record and its replacement" in text) is asked
        found = answer(capsys, "certify", path)
        assert any("any two records" in line for line in found["bounds"][0]["caller_checked"]) is asked


def test_a_plot_is_written_and_its_crossings_named(tmp_path, capsys):
    target = tmp_path / "out.svg"
    text = shown(capsys, "certify", FULL, "--plot", target)
    assert ET.fromstring(target.read_text(encoding="utf-8")).tag.endswith("svg")
    assert f"Epsilon against steps: {target}" in text
    assert "shifted.full beats composition.gaussian from step" in text
    drawn = answer(capsys, "certify", FULL, "--plot", target)
    crossings = drawn.pop("crossings")
    assert drawn == answer(capsys, "certify", FULL)
    assert crossings
    assert all(set(crossing) == {"steps", "from", "to"} for crossing in crossings)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_plot_of_few_steps_has_ticks_at_steps_only(steps, tmp_path):
    spec, target = read_spec(FULL).with_values({"algorithm.steps": steps}), tmp_path / "out.svg"
    (tmp_path / "spec.json").write_text(spec.to_json(), encoding="utf-8")
    assert main(["certify", str(tmp_path / "spec.json"), "--plot", str(target)]) == 0
    texts = ET.fromstring(target.read_text(encoding="utf-8")).iter("{http://www.w3.org/2000/svg}text")
    middle = [text.text or "" for text in texts if text.get("text-anchor") == "middle"]
    below = [float(text) for text in middle if text.replace(".", "", 1).isdigit()]
    assert below
    assert all(tick == round(tick) for tick in below)
