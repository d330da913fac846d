"""Questions about a table in words, such as "mean: age by ward" and "table: ward, smoker", checked before a charge."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sordino.core.validate import InputError, Interval, Mistakes, one_of, shown_names, whole_number
from sordino.data import Boolean, Category, ColumnKind, Measurement, Ordered, Schema
from sordino.data.columns.base import repeats
from sordino.mechanisms.statistics.answers import Described, Grouped
from sordino.mechanisms.statistics.population import CorrelationTest, IndependenceTest, MeansTest, SurvivalCurve
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

MOST_CELLS, _MOST_TESTED = 100_000, 900
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
    all_columns = [f"{Described.word}: {column.name}" for column in schema.declared_columns()]
    listed = [one for text in questions for one in (all_columns if text == Described.word else (text,))]
    for text in listed:
        try:
            found.append(_parsed(text, schema, tuple(names)))
        except InputError as error:
            errors += error.errors if isinstance(error, Mistakes) else (error,)
    if repeated := repeats(map(str, listed)):
        errors.append(InputError(f"Expected different questions, got {shown_names(repeated)} twice; leave one out."))
    if errors:
        raise errors[0] if len(errors) == 1 else Mistakes(errors)
    return tuple(found)


def _parsed(text: str, schema: Schema, names: tuple[str, ...]) -> ParsedQuestion:
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None or form[1] not in WORDS:
        why = f"Expected a question such as 'mean: age', got {str(text)[:60]!r}"
        raise InputError(f"{why}; begin with one of {', '.join(WORDS)}.")
    word = form[1]
    options, (columns, group) = _options(text, word, form[3]), _columns(form[2] or "", names)
    if absent := [name for name in (*columns, *group) if name not in names]:
        why = f"Expected columns of the table in {text!r}, got {shown_names(absent)}"
        raise InputError(f"{why}; it has {shown_names(names)}.")
    kinds = {column.name: column.kind for column in schema.declared_columns()}
    if word != Bounds.word and (undeclared := [name for name in (*columns, *group) if name not in kinds]):
        wanted = f"Expected declared columns in {text!r}, got {shown_names(undeclared)}"
        raise InputError(f"{wanted}; declare them, or ask for their bounds first.")
    question = _QUESTIONS[word].made(_Asked(text, columns, group, kinds, options, schema))
    if question.size > MOST_CELLS:
        raise InputError(f"Expected at most {MOST_CELLS} cells in {text!r}, got {question.size}; ask for less.")
    return ParsedQuestion(question, word, {name: value for name, value in options.items() if name in _KEPT})


_KEPT = ("levels", "above")


def _options(text: str, word: str, given: str | None) -> dict[str, Any]:
    options, known = dict[str, Any](), _QUESTIONS[word].options
    for option in (given or "").split(";") if (given or "").strip() else ():
        key, _, value = (part.strip() for part in option.partition("="))
        if key not in known:
            allowed = ", ".join(known) or "none"
            raise InputError(f"Expected options of {word} ({allowed}) in {text!r}, got {key!r}; correct it.")
        if key == "scale":
            options[key] = one_of(f"scale in {text!r}", value, ("log",))
            continue
        try:
            options[key] = [float(one) for one in value.split(",")] if key == "levels" else float(value)
        except ValueError:
            raise InputError(f"Expected numbers behind {key} in {text!r}, got {value!r}.") from None
    if any(not 0.0 < level < 1.0 for level in options.get("levels", ())):
        raise InputError(f"Levels in {text!r} must be between 0 and 1.")
    return options


def _columns(text: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a question, and the one behind "by"; a name of the table may hold a comma or "by" itself."""
    if text.strip() in names or not text.strip():
        return (text.strip(),) if text.strip() else (), ()
    left, by, group = text.rpartition(" by ")
    if by:
        return _columns(left, names)[0], (group.strip(),)
    return tuple(part.strip() for part in text.split(",")), ()


class _Asked(NamedTuple):
    """A question taken apart: its columns, the one behind "by", the kinds that are declared, and its options."""

    text: str
    columns: tuple[str, ...]
    group: tuple[str, ...]
    kinds: Mapping[str, ColumnKind]
    options: dict[str, Any]
    schema: Schema

    def cells(self, name: str, usual: int) -> Any:
        """The cells of a column, and the edges of its bins."""
        given = float(self.options.get("bins", usual))
        bins = whole_number("bins", int(given) if given.is_integer() else given, _BINS)
        return cells_of(self.kinds[name], bins, log="scale" in self.options)

    def counted(self, usual: int, kind: type[Counted] = Counted, columns: tuple[str, ...] | None = None) -> Counted:
        """Counts in the cells of all columns."""
        named = columns or self.columns
        return kind(self.text, named, *zip(*(self.cells(name, usual) for name in named), strict=True))

    def number(self, *, ranks: bool = False) -> tuple[str, tuple[str, ...]]:
        """Text and columns; refused where these are no numbers, which with `ranks` yes and no and ordered words are."""
        for name in self.columns:
            kind = self.kinds.get(name)
            if kind is not None and not _is_number(kind) and not (ranks and isinstance(kind, Boolean | Ordered)):
                wanted = f"Expected a number in {self.text!r}, got the kind {kind.word!r}"
                raise InputError(f"{wanted}; ask for its histogram.")
        return self.text, self.columns

    def population(self) -> None:
        """Refuse a test where a person may have several records: they are no independent draws."""
        unit = self.schema.unit
        if unit is not None and unit.column is not None and unit.most_records > 1:
            why = "Records of one person are not independent, and the test would count them as if they were."
            raise InputError(f"{self.text!r} needs one record for each value of {unit.column!r}. {why}")


def _is_number(kind: ColumnKind) -> bool:
    return isinstance(kind, Measurement) and not isinstance(kind, Ordered)


def _count(asked: _Asked) -> Question:
    if asked.columns:
        wanted = f"Expected no column in {asked.text!r}, got {shown_names(asked.columns)}"
        raise InputError(f"{wanted}; ask for a histogram of it.")
    return Count(asked.text, ())


def _described(asked: _Asked) -> Question:
    names, edges = asked.cells(asked.columns[0], 64)
    text = asked.text, asked.columns
    return Counted(*text, (names,), (None,)) if edges is None else Described(*text, edges)


def _quantiles(asked: _Asked) -> Question:
    asked.number()
    asked.options.setdefault("levels", [0.25, 0.5, 0.75])
    return asked.counted(64)


def _correlation(asked: _Asked) -> Question:
    columns = asked.columns
    if not 2 <= len(set(columns)) == len(columns) <= 50:
        raise InputError(f"Expected 2 to 50 different columns in {asked.text!r}, got {len(columns)}.")
    return Correlation(*asked.number(ranks=True), several_records=asked.schema.unit_column is not None)


def _categories(asked: _Asked) -> Question:
    if not isinstance(asked.kinds[asked.columns[0]], Category):
        raise InputError(f"{asked.text!r} needs a category; ask for a histogram instead.")
    asked.options.setdefault("above", 0.0)
    return asked.counted(1)


def _test(asked: _Asked) -> Question:
    """The test that fits the kinds of two columns."""
    asked.population()
    columns = (*asked.columns, *asked.group)
    if len(set(columns)) != 2:
        raise InputError(f"Expected two different columns in {asked.text!r}, such as 'test: age by ward'.")
    words = [name for name in columns if not _is_number(asked.kinds[name])]
    numbers = tuple(name for name in columns if name not in words)
    if len(words) == 2:
        found = asked.counted(1, IndependenceTest, columns)
        if found.size > _MOST_TESTED:
            raise InputError(f"Expected at most {_MOST_TESTED} cells in {asked.text!r}, got {found.size}.")
        return found
    if not words:
        return CorrelationTest(asked.text, columns)
    groups, of = asked.cells(words[0], 1)[0], Described(asked.text, numbers)
    return MeansTest(asked.text, (*numbers, words[0]), of, groups)


def _survival(asked: _Asked) -> Question:
    asked.population()
    if len(asked.columns) != 2 or not _is_number(asked.kinds[asked.columns[0]]):
        raise InputError(f"Expected a time and an event in {asked.text!r}, such as 'survival: days, died by ward'.")
    time, event = asked.columns
    if not isinstance(asked.kinds[event], Boolean) or any(_is_number(asked.kinds[name]) for name in asked.group):
        raise InputError(f"In {asked.text!r} the event must be declared as yes/no, and groups as words.")
    return asked.counted(20, SurvivalCurve, (time, event, *asked.group))


class _Word(NamedTuple):
    """What a question's first word makes, how many columns it takes, its options, and whether groups may follow."""

    make: Callable[[_Asked], Question]
    columns: tuple[int, int] = (1, 1)
    options: tuple[str, ...] = ()
    grouped: bool = False
    groups_itself: bool = False

    def made(self, asked: _Asked) -> Question:
        least, most = self.columns
        if not least <= len(asked.columns) <= most:
            wanted = f"{least} to {most} columns" if most > least else "one column"
            raise InputError(f"Expected {wanted} in {asked.text!r}, got {len(asked.columns)}.")
        question = self.make(asked)
        if not asked.group or self.groups_itself:
            return question
        (group,) = asked.group
        if not self.grouped or _is_number(asked.kinds[group]):
            words = ", ".join(word for word, one in _QUESTIONS.items() if one.grouped or one.groups_itself)
            raise InputError(f"Groups in {asked.text!r} must be declared words; 'by' may follow {words}.")
        return Grouped(asked.text, (*question.columns, group), question, asked.cells(group, 1)[0])


_MANY = (0, 100)
_BINNED = ("bins", "scale")
_QUESTIONS = {
    "count": _Word(_count, _MANY),
    "describe": _Word(_described, options=(*_BINNED, "levels"), grouped=True),
    "histogram": _Word(lambda asked: asked.counted(20), options=_BINNED, grouped=True),
    "mean": _Word(lambda asked: Mean(*asked.number(ranks=True)), grouped=True),
    "quantiles": _Word(_quantiles, options=("levels", *_BINNED), grouped=True),
    "table": _Word(lambda asked: asked.counted(5), (2, 3), _BINNED),
    "missing": _Word(lambda asked: Missing(asked.text, asked.columns), grouped=True),
    "correlation": _Word(_correlation, _MANY),
    "categories": _Word(_categories, options=("above",)),
    "bounds": _Word(lambda asked: Bounds(*asked.number())),
    "test": _Word(_test, (1, 2), groups_itself=True),
    "survival": _Word(_survival, (2, 2), _BINNED, groups_itself=True),
}
WORDS = tuple(_QUESTIONS)
