"""Questions about a table in words, such as "mean: age" and "table: ward, smoker", checked before anything is spent."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.core.validate import InputError, Interval, Mistakes, shown_names, whole_number
from sordino.data import Boolean, Category, ColumnKind, Measurement, Ordered, Schema
from sordino.mechanisms.statistics.questions import (
    Bounds,
    Correlation,
    Count,
    Counted,
    Mean,
    Missing,
    Question,
    cells_of,
)

MOST_CELLS = 100_000
_BINS = Interval(1, 10_000)


@dataclass(frozen=True, eq=False)
class ParsedQuestion:
    """A question as it was asked, with its options in brackets."""

    question: Question
    word: str
    options: Mapping[str, Any]


_FORM = re.compile(r"\s*([a-z]+)\s*(?::\s*(.*?))?\s*(?:\[([^\[\]]*)\])?\s*", re.DOTALL)


def parsed(questions: Sequence[str], schema: Schema, names: Sequence[str]) -> tuple[ParsedQuestion, ...]:
    """Questions in words, checked against the schema and the header; all mistakes at once, before anything is spent."""
    if isinstance(questions, str) or not questions:
        raise InputError("There are no questions. Ask for instance 'mean: age'.")
    found, errors = [], []
    for text in questions:
        try:
            found.append(_parsed(text, schema, tuple(names)))
        except InputError as error:
            errors += error.errors if isinstance(error, Mistakes) else (error,)
    repeated = [text for place, text in enumerate(questions) if text in questions[:place]]
    if repeated:
        errors.append(InputError(f"Expected different questions, got {shown_names(repeated)} twice; leave one out."))
    if errors:
        raise errors[0] if len(errors) == 1 else Mistakes(errors)
    return tuple(found)


def _parsed(text: str, schema: Schema, names: tuple[str, ...]) -> ParsedQuestion:
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None or form[1] not in WORDS:
        raise InputError(
            f"Expected a question such as 'mean: age', got {str(text)[:60]!r}; begin with one of {', '.join(WORDS)}."
        )
    word = form[1]
    options, columns = _options(text, word, form[3]), _columns(form[2] or "", names)
    if absent := [name for name in columns if name not in names]:
        raise InputError(
            f"Expected columns of the table in {text!r}, got {shown_names(absent)}; it has {shown_names(names)}."
        )
    kinds = {column.name: column.kind for column in schema.declared_columns()}
    if word != Bounds.word and (undeclared := [name for name in columns if name not in kinds]):
        raise InputError(
            f"Expected declared columns in {text!r}, got {shown_names(undeclared)}; declare them, or ask for their "
            "bounds first."
        )
    question = _made(word, text, columns, kinds, options, schema)
    return ParsedQuestion(question, word, {name: value for name, value in options.items() if name in _KEPT})


_KEPT = ("levels", "above")
_KNOWN = {"histogram": ("bins",), "quantiles": ("levels", "bins"), "table": ("bins",), "categories": ("above",)}


def _options(text: str, word: str, given: str | None) -> dict[str, Any]:
    options, known = dict[str, Any](), _KNOWN.get(word, ())
    for option in (given or "").split(";") if (given or "").strip() else ():
        key, _, value = (part.strip() for part in option.partition("="))
        if key not in known:
            allowed = ", ".join(known) or "none"
            raise InputError(f"Expected options of {word} ({allowed}) in {text!r}, got {key!r}; correct it.")
        try:
            options[key] = [float(one) for one in value.split(",")] if key == "levels" else float(value)
        except ValueError:
            raise InputError(f"Expected numbers behind {key} in {text!r}, got {value!r}.") from None
    if any(not 0.0 < level < 1.0 for level in options.get("levels", ())):
        raise InputError(f"Levels in {text!r} must be between 0 and 1.")
    return options


def _columns(text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a question; one of the table's names may hold a comma itself."""
    if text.strip() in names or not text.strip():
        return (text.strip(),) if text.strip() else ()
    return tuple(part.strip() for part in text.split(","))


_Kinds = Mapping[str, ColumnKind]
# Bins of numbers unless they are stated, and how many columns a question of counts has.
_COUNTS = {"histogram": (20, 1, 1), "quantiles": (64, 1, 1), "categories": (1, 1, 1), "table": (5, 2, 3)}
WORDS = ("count", "histogram", "mean", "quantiles", "table", "missing", "correlation", "categories", "bounds")


def _made(
    word: str, text: str, columns: tuple[str, ...], kinds: _Kinds, options: dict[str, Any], schema: Schema
) -> Question:
    """The question that begins with a word."""
    if word == "count":
        if columns:
            raise InputError(f"Expected no column in {text!r}, got {shown_names(columns)}; ask for a histogram of it.")
        return Count(text, ())
    if word == "correlation":
        if not 2 <= len(set(columns)) == len(columns) <= 50:
            raise InputError(f"Expected 2 to 50 different columns in {text!r}, got {len(columns)}.")
        for name in columns:
            _number(text, kinds[name], ranks=True)
        return Correlation(text, columns, several_records=schema.unit_column is not None)
    if word not in ("histogram", "table") and len(columns) != 1:
        raise InputError(f"Expected one column in {text!r}, got {len(columns)}; name one.")
    if word in ("mean", "bounds", "quantiles") and columns[0] in kinds:
        _number(text, kinds[columns[0]], ranks=word == "mean")
    if (plain := {"missing": Missing, "mean": Mean, "bounds": Bounds}.get(word)) is not None:
        return plain(text, columns)
    if word == "quantiles":
        options.setdefault("levels", [0.25, 0.5, 0.75])
    if word == "categories":
        if not isinstance(kinds[columns[0]], Category):
            raise InputError(f"{text!r} needs a category; ask for a histogram instead.")
        options.setdefault("above", 0.0)
    return _counted(text, columns, kinds, options, *_COUNTS[word])


def _counted(
    text: str, columns: tuple[str, ...], kinds: _Kinds, options: Mapping[str, Any], usual: int, least: int, most: int
) -> Question:
    if not least <= len(columns) <= most:
        wanted = f"{least} to {most} columns" if most > least else "one column"
        raise InputError(f"Expected {wanted} in {text!r}, got {len(columns)}.")
    given = float(options.get("bins", usual))
    bins = whole_number("bins", int(given) if given.is_integer() else given, _BINS)
    question = Counted(text, columns, *zip(*(cells_of(kinds[name], bins) for name in columns), strict=True))
    if question.size > MOST_CELLS:
        raise InputError(f"Expected at most {MOST_CELLS} cells in {text!r}, got {question.size}; ask for less.")
    return question


def _number(text: str, kind: ColumnKind, *, ranks: bool) -> None:
    """Refuse what is no number; yes and no, and words in an order, are numbers where `ranks` have a mean."""
    if not isinstance(kind, Measurement | Boolean) or (not ranks and isinstance(kind, Boolean | Ordered)):
        raise InputError(f"Expected a number in {text!r}, got the kind {kind.word!r}; ask for its histogram.")
