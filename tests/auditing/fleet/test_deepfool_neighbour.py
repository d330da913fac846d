"""The neighbour "deepfool" of an instance: a canary inside the schema's bounds, and messages that name the field."""

import csv
import json

import numpy as np
import pytest

from sordino import InputError, Spec
from sordino.auditing.instance import audit_instance, class_targets
from sordino.cli.main import main
from sordino.models.families.networks import MLPRegression

SPEC = {
    "algorithm": {
        "kind": "noisy-gradient",
        "steps": 100,
        "step_size": 0.5,
        "noise": {"kind": "gaussian", "scale": 0.002},
        "batch": {"scheme": "cyclic", "size": 30},
        "start": {"kind": "gaussian", "scale": 0.5},
        "clipping": {"kind": "norm", "bound": 2.0},
    },
    "problem": {"n": 60, "dim": 26, "gradient_sensitivity": 4.0, "gradient_bound": 2.0},
    "relation": "replace-one",
    "view": "last-iterate",
    "delta": 1e-5,
}


def _instance(folder, neighbour, **parameters):
    model = {"name": "mlp-classification", "parameters": {"classes": 2, **parameters}}
    dataset = {"kind": "file", "path": str(folder / "net.csv"), "schema": str(folder / "schema.json")}
    return SPEC | {"instance": {"model": model, "dataset": dataset, "neighbour": neighbour}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("net")
    generator = np.random.default_rng(8)
    a, b = generator.uniform(-3, 3, 60), generator.uniform(0, 10, 60)
    with (made / "net.csv").open("w", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "sick"])
        rows.writerows(
            [round(x, 3), round(y, 3), "yes" if x + 0.3 * (y - 5) > 0 else "no"] for x, y in zip(a, b, strict=True)
        )
    lines = ["records = 60", "a: -3..3", "b: 0..10", "sick: yes/no [target]"]
    columns = [word for line in lines for word in ("--column", line)]
    assert main(["schema", "new", str(made / "net.csv"), *columns, "--out", str(made / "schema.json")]) == 0
    return made


def test_the_canary_is_one_record_inside_the_bounds_with_its_label(folder):
    pair = audit_instance(Spec.from_dict(_instance(folder, {"kind": "deepfool"}, hidden=[4]))).pair
    changed = np.flatnonzero((pair.first.features != pair.second.features).any(axis=1))
    assert len(changed) == 1
    assert np.array_equal(pair.first.target, pair.second.target)
    canary = pair.second.features[changed[0]]
    assert canary[0] == 1.0, "an intercept is no column of a table"
    assert np.abs(canary).max() <= 1.0
    at_one_place = audit_instance(
        Spec.from_dict(_instance(folder, {"kind": "deepfool", "position": int(changed[0])}, hidden=[4]))
    ).pair
    assert np.array_equal(at_one_place.second.features, pair.second.features)


def test_a_fleet_attacks_a_network_of_the_users_own_from_the_command_line(folder, capsys):
    (folder / "spec.json").write_text(json.dumps(_instance(folder, {"kind": "deepfool"}, hidden=[4])))
    assert main(["audit", str(folder / "spec.json"), "--models", "100", "--seed", "1"]) == 0
    assert "deepfool neighbour" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"hidden": 4}, r"hidden to be a list of layer widths such as \[16\], got 4"), ({}, "lacks 'hidden'")],
)
def test_a_message_names_the_field_of_the_model(folder, parameters, words):
    with pytest.raises(InputError, match=words):
        audit_instance(Spec.from_dict(_instance(folder, {"kind": "worst"}, **parameters)))
    with pytest.raises(InputError, match=r"instance\.model of the neighbour 'deepfool' to have classes"):
        class_targets(MLPRegression((4,)))
