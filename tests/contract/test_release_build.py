"""A release can be checked: two builds agree, the recipe has the wheel's requirements, and provenance is signed."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sordino.ledger.signing_keys import new_key
from tests.scripts import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build():
    return script(ROOT / "release" / "build.py")


def test_the_conda_recipe_has_the_requirements_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "release" / "recipe.yaml").read_text(encoding="utf-8")
    listed = {line.strip("- ").replace(" ", "") for line in recipe.split("\n") if re.match(r"    - (?!python )", line)}
    assert listed == set(project["dependencies"])


def test_an_envelope_opens_for_its_signer_alone(build, tmp_path) -> None:
    key, other = new_key(tmp_path / "a.key"), new_key(tmp_path / "b.key")
    (tmp_path / "wheel").write_bytes(b"bytes")
    said = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "wheel"}]}
    sealed = build.envelope(said, key)
    assert build.opened(sealed, key.public) == said
    # The example of the DSSE protocol: type and body with their lengths.
    assert build.pre_authentication("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    for wrong in (sealed | {"payload": sealed["payload"][:-8] + "AAAAAAA="}, sealed | {"payloadType": "text/plain"}):
        with pytest.raises(SystemExit, match="none that holds"):
            build.opened(wrong, key.public)
    with pytest.raises(SystemExit, match="none that holds"):
        build.opened(sealed, other.public)


def report(**hashes) -> dict:
    def entry(name):
        known = {"name": name, "version": "1.0", "license_expression": "MIT"}
        return {"metadata": known, "download_info": {"url": "u", "archive_info": {"hashes": hashes}}}

    return {"install": [entry(name) for name in ("Sordino", "Zeta_9.q", "alpha")]}


def test_every_resolved_file_is_pinned_and_listed_by_its_digest(build) -> None:
    found = build.packages(report(sha256="ab" * 32))
    assert build.constraints(found) == "".join(
        f"{name}==1.0 --hash=sha256:{'ab' * 32}\n" for name in ("alpha", "zeta-9-q")
    )
    bill = build.bill_of_materials(found)
    assert bill["metadata"]["component"]["name"] == "sordino"
    assert [entry["purl"] for entry in bill["components"]] == ["pkg:pypi/alpha@1.0", "pkg:pypi/zeta-9-q@1.0"]
    assert {entry["hashes"][0]["content"] for entry in bill["components"]} == {"ab" * 32}
    with pytest.raises(SystemExit, match="a SHA-256 for sordino"):
        build.packages(report(md5="0"))


@pytest.mark.slow
def test_a_release_is_built_and_its_wheel_works_in_a_bare_environment(build, tmp_path) -> None:
    new_key(tmp_path / "maintainer.key")
    command = [sys.executable, ROOT / "release" / "build.py", tmp_path / "dist", "--key", tmp_path / "maintainer.key"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    dist = tmp_path / "dist"
    assert "://" not in (dist / "constraints.txt").read_text()
    said = build.opened(
        json.loads((dist / "provenance.json").read_text()), build.read_key(tmp_path / "maintainer.key").public
    )
    digests = {entry["name"]: entry["digest"]["sha256"] for entry in said["subject"]}
    assert {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in digests} == digests
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    steps = (
        ["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", dist / "constraints.txt"],
        ["-m", "pip", "install", "--quiet", "--no-deps", wheel],
        ["-m", "pip", "check"],
        ["-m", "sordino", "--version"],
        [
            "-c",
            "from sordino import accounting as a; a.gaussian(noise_multiplier=2, relation='add-remove').epsilon(1e-5)",
        ],
    )
    for step in steps:
        answer = subprocess.run([python, *step], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
