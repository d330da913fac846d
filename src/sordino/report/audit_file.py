"""Reading the answer of `sordino audit --json` back into a lower bound, strictly: the file may come from anywhere."""

import math
from pathlib import Path
from typing import Any

from sordino.audit.lower_bound import Examined, LowerBound
from sordino.audit.trade_off import TradeOffPoint
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.spec import FileDataset, Spec
from sordino.core.spec.json_text import check_plain, parse, read_text
from sordino.core.validate import number, one_of, refuse
from sordino.core.view import View

AUDIT_FILE = "audit.json"
LONGEST_TEXT = 2000
MOST_POINTS = 10_000
# How an audit describes the private rows it trained on; see `audit.instance`.
_ROWS = "records of a file"


def read_audit(path: Path) -> LowerBound:
    """The lower bound that an audit file states; its verdict is not read, because it can be recomputed."""
    document = parse(read_text(path))
    check_plain(document)
    where = str(path)
    answer = _fields(where, document, ("relation", "view", "delta", "method", "confidence", "lower_bound"))
    found = _fields(where, answer["lower_bound"], ("epsilon", "evidence", "curve"))
    counts = answer.get("counts") or {}
    if not isinstance(counts, dict) or not isinstance(found["curve"], list) or len(found["curve"]) > MOST_POINTS:
        raise InputError(f"Expected {where} to be the answer of sordino audit --json, got something else.")
    return LowerBound(
        epsilon=math.inf if found["epsilon"] is None else number("lower_bound.epsilon", found["epsilon"]),
        delta=answer["delta"],
        relation=Relation(one_of("relation", answer["relation"], tuple(Relation))),
        view=View(one_of("view", answer["view"], tuple(View))),
        method=_text("method", answer["method"]),
        confidence=answer["confidence"],
        counts=tuple((_text("the name of a count", name), count) for name, count in counts.items()),
        cap=None if answer.get("cap") is None else number("cap", answer["cap"]),
        seed_policy=_text("seed_policy", answer.get("seed_policy") or "Not stated."),
        evidence=_text("lower_bound.evidence", found["evidence"]),
        curve=tuple(_point(point) for point in found["curve"]),
        examined=_examined(answer),
    )


def _examined(answer: dict[str, Any]) -> Examined:
    """Files of older versions do not say it. The method exact runs nothing, whatever its file says."""
    stated = Examined(one_of("examined", answer.get("examined") or Examined.RUN.value, tuple(Examined)))
    return Examined.DESCRIPTION if answer["method"] == "exact" else stated


def reads_rows(lower: LowerBound, spec: Spec) -> bool:
    """Whether private rows were read to get this lower bound; then it must not leave with a release."""
    from_file = spec.instance is not None and isinstance(spec.instance.dataset, FileDataset)
    return from_file or _ROWS in lower.evidence


def _fields(where: str, value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or any(name not in value for name in names):
        raise InputError(f"Expected {where} to be the answer of sordino audit --json, got something else.")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise refuse(name, f"to be a text of at most {LONGEST_TEXT} letters", value)
    return value


def _point(value: Any) -> TradeOffPoint:
    if not isinstance(value, list) or len(value) != 2:
        raise refuse("a point of lower_bound.curve", "to be two numbers", value)
    return TradeOffPoint(value[0], value[1])
