"""Whatever on a page contradicts a release makes the strip say No, the exit code 2, and a dossier impossible."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sordino import InputError, Spec
from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.cli import main
from sordino.ledger.release import StoredRelease, write_release
from sordino.report.page import non_private_path
from sordino.report.subject import open_subject
from tests.release_kinds import KINDS

Document = dict[str, Any]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def fitted() -> StoredRelease:
    """As if its noise had been secret; ridge, whose noise is one number in the spec."""
    return replace(KINDS["linear ridge"](), private=True)


def _scaled(value: Any, factor: float) -> Any:
    """A description whose every noise multiplier is scaled."""
    if isinstance(value, dict):
        return {
            name: factor * one if name == "noise_multiplier" else _scaled(one, factor) for name, one in value.items()
        }
    return [_scaled(one, factor) for one in value] if isinstance(value, list) else value


def _noise(document: Document, _folder: Path) -> None:
    """Ten times the noise, and nothing else: the page would state a tenth of the loss."""
    document["spec"] = _scaled(document["spec"], 10.0)


def _noise_and_certificate(document: Document, _folder: Path) -> None:
    """The bound and the headline go with the noise: nothing but the plan says otherwise."""
    document["spec"] = _scaled(document["spec"], 10.0)
    bound = explain(Spec.from_dict(document["spec"]), document["delta"]).tightest
    assert bound is not None
    document |= {"bound": bound.to_dict(), "epsilon": bound.guarantee.epsilon(document["delta"])}


def _answers(document: Document, _folder: Path) -> None:
    """What the folder says of a theorem that is not on the page."""
    document["answers"]["tightest"]["epsilon"] = 0.1


def _evidence(document: Document, _folder: Path) -> None:
    """The stored bound under another name for how it is known."""
    document["bound"]["status"] = "ours" if document["bound"]["status"] == "as-stated" else "as-stated"


def _records(document: Document, _folder: Path) -> None:
    """More records than are declared; neither the bound nor a plan of another kind of release depends on them."""
    document["schema"]["records"] += 1


def _floating_point(document: Document, _folder: Path) -> None:
    document["floating_point"]["reason"] = "proved by hand"


def _method(document: Document, _folder: Path) -> None:
    document["settings"]["method"] = "constant"


def _unasked(document: Document, _folder: Path) -> None:
    del document["settings"]["asked"]


def _headline(epsilon: float | None) -> Callable[[Document, Path], None]:
    return lambda document, _folder: document.update(epsilon=epsilon)


def _audited(document: Document, folder: Path) -> None:
    """An audit beside the release that found more than is certified."""
    _write_audit(document, folder, 2 * document["epsilon"])


def _replayed(document: Document, folder: Path) -> None:
    """An audit beside the release whose test of the code found a mistake, and whose lower bound is fine."""
    said = {"kind": "violated", "evidence": "A call moves further than planned."}
    _write_audit(document, folder, 0.5 * document["epsilon"], implementation={"verdict": said})


def _write_audit(document: Document, folder: Path, epsilon: float, **more: object) -> None:
    lower = audit(Spec.from_dict(document["spec"]), "exact", AuditOptions(delta=document["delta"])).as_json()
    changed = lower["lower_bound"] | {"epsilon": epsilon, "curve": []}
    (folder / "audit.json").write_text(json.dumps(lower | {"lower_bound": changed} | more))


CONTRADICTIONS: dict[str, tuple[Callable[[Document, Path], None], str]] = {
    "noise": (_noise, "The stored certificate is wrong."),
    "noise and certificate": (_noise_and_certificate, "This version would not plan this run."),
    "answers of theorems": (_answers, "The stored certificate is wrong."),
    "kind of evidence": (_evidence, "The stored certificate is wrong."),
    "number of records": (_records, "The release contradicts itself."),
    "floating point": (_floating_point, "This version would not plan this run."),
    "method": (_method, "This version would not plan this run."),
    "what was asked for": (_unasked, "This version would not plan this run."),
    **{
        f"headline {epsilon}": (_headline(epsilon), "The stated epsilon differs from its own bound.")
        for epsilon in (0.1, 7.0, None)
    },
    "audit of the code": (_replayed, "An audit found that the code does not do what is certified."),
    "audit": (_audited, "An audit contradicts the certificate."),
}


def test_a_release_that_nothing_contradicts_may_leave(fitted, tmp_path, capsys):
    folder, out = write_release(tmp_path / "one", fitted), tmp_path / "report.html"
    assert main(["report", str(folder), "--out", str(out), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["releases"]
    assert (answer["may_leave"], answer["discrepancies"]) == (True, [])
    assert '<p class="word">Yes</p>' in out.read_text()


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_no_and_code_2_without_a_ledger_and_has_no_dossier(fitted, tmp_path, capsys, case):
    change, title = CONTRADICTIONS[case]
    folder, out = write_release(tmp_path / "one", fitted), tmp_path / "report.html"
    document = json.loads((folder / "release.json").read_text())
    change(document, folder)
    (folder / "release.json").write_text(json.dumps(document))
    assert main(["report", str(folder), "--out", str(out), "--json"]) == 2
    streams = capsys.readouterr()
    (answer,) = json.loads(streams.out)["releases"]
    assert answer["may_leave"] is False
    assert answer["discrepancies"]
    assert "must not be published" in streams.err
    assert not out.exists()
    page = non_private_path(out).read_text()
    assert '<p class="word">No</p>' in page
    assert '<p class="word">Yes</p>' not in page
    assert title in page
    assert main(["sign", "dossier", str(folder), "--out", str(tmp_path / "dossier")]) == 2
    assert not (tmp_path / "dossier").exists()


@pytest.mark.parametrize("name", ["comparison", "look", "linear bounded-influence", "choice"])
def test_a_number_of_a_stored_bound_that_was_changed_is_no(name, tmp_path):
    """Also where the page states another one: answers of losing theorems, curves at other deltas, and their words."""
    folder = write_release(tmp_path / "one", replace(KINDS[name](), private=True))
    whole = json.loads((folder / "release.json").read_text())
    assert open_subject(folder).may_leave
    kept = [(whole, "bound"), (whole, "answers"), (whole, "spec")]
    changed = [(holder[key], name) for holder, key in kept for name in holder[key]]
    leaves = [(holder, key) for start in changed for holder, key in _leaves(*start)]
    # Every seventh: answers of a theorem by moments have hundreds of numbers.
    for holder, key in [*leaves[:20], *leaves[20::7]]:
        value = holder[key]
        holder[key] = value + "x" if isinstance(value, str) else 0.5 * value - 1.0 if value else 1.0
        (folder / "release.json").write_text(json.dumps(whole))
        with suppress(InputError):
            assert not open_subject(folder).may_leave, (key, value, holder[key])
        holder[key] = value


def _leaves(holder: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    """Every number and word at or below a place of a document."""
    value = holder[key]
    if isinstance(value, dict | list):
        for inner in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value, inner)
    elif not isinstance(value, bool) and value is not None:
        yield holder, key


def test_a_tighter_theorem_of_a_later_version_contradicts_nothing(fitted, tmp_path):
    subject = open_subject(write_release(tmp_path / "one", replace(fitted, software="0.0.1")))
    (bound, epsilon), *others = subject.explanation.bounds
    better = replace(bound, theorem="later.and-tighter")
    later = replace(
        subject, explanation=replace(subject.explanation, bounds=((better, epsilon), (bound, epsilon), *others))
    )
    assert later.may_leave
