"""A schema as a person writes it: a line for each column, ``age: 0..110``; and formulas, ``ill ~ age + ward``.

| line | declares |
| --- | --- |
| ``age: 0..110`` | a number between two others |
| ``admitted: 2015-01-01..2024-12-31`` | a date |
| ``ward: maternity|medicine|surgery``, ``site: 1|2|3`` | a category: words or whole numbers |
| ``stage: I < II < III`` | words in an order |
| ``smoker: yes/no`` | a boolean, the word for true first |
| ``patient: unit of 12`` | the privacy unit; at most this many records of each are used |
| ``weight: weight 0.2..5 mean 1`` | survey weights, their bounds and their public mean, 1 if left out |
| ``remarks: ignore`` | nothing: the column is left out |
| ``records = 600`` | a key of the whole schema; also ``intercept``, ``delimiter``, ``decimal``, ``encoding`` |
| ``missing_tokens = NA|-99`` | what a missing cell says, besides nothing |

Options stand in brackets behind: ``[target]``, ``[missing=indicator]``, ``[missing=40]``, ``[unseen=other]``,
``[drop_first]``, ``[scaling=unit]``, ``[out_of_range=refuse]``, ``[part=month, format=%d.%m.%Y|%Y-%m-%d]``,
``[thousands=point, symbol=EUR]``.

A formula chooses from a schema; it declares nothing by itself, so every bound comes from the schema's columns, that of
a product too. formulaic reads the formula, no row. A category in a product leaves out its first word, as a baseline.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

from sordino.core.spec.fields import keys_of
from sordino.core.validate import Checks, InputError, shown_names
from sordino.data.columns.base import KINDS
from sordino.data.columns.category import Category
from sordino.data.columns.number import Factor, Interaction
from sordino.data.schema import HEAD, MOST_DECLARED, ExtraColumns, Feature, Schema, Target, schema_from_dict
from sordino.data.units import sounds_like_an_identifier

Keys = dict[str, Any]  # as a schema file has them
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DAY = r"\d{4}-\d{2}-\d{2}"
_FLAGS = ("target", "drop_first")
_SETTINGS: dict[str, Callable[[str], Any]] = {
    "records": int,
    "intercept": lambda text: {"true": True, "false": False}[text],
    "description": str,
    # An empty cell is missing whatever else is.
    "missing_tokens": lambda text: list(dict.fromkeys(["", *_parted(text, "|")])),
    "delimiter": lambda text: {"tab": "\t"}.get(text, text),
    "decimal": str,
    "encoding": str,
}
_RANGE = rf"({_NUMBER})\s*\.\.\s*({_NUMBER})"
# What a domain may read like, and the keys that it stands for; the first that fits counts.
_DOMAINS: dict[str, Callable[[re.Match[str]], Keys]] = {
    _RANGE: lambda found: {"kind": "number", "low": float(found[1]), "high": float(found[2])},
    rf"({_DAY})\s*\.\.\s*({_DAY})": lambda found: {"kind": "date", "first": found[1], "last": found[2]},
    r"unit(?:\s+of\s+(\d+))?": lambda found: {"unit": None if found[1] is None else int(found[1])},
    rf"weight\s+{_RANGE}(?:\s+mean\s+({_NUMBER}))?": lambda found: {
        "weight": {"low": float(found[1]), "high": float(found[2]), "mean": float(found[3] or 1.0)}
    },
    r"ignore": lambda _: {},
    r"(<?[^/|<]+)/(<?[^/|<]+)": lambda found: {
        "kind": "boolean", "true_values": [found[1].strip()], "false_values": [found[2].strip()]
    },
    r"[^<|]+(?:<[^<|]+)+": lambda found: {"kind": "ordered", "values": _parted(found[0], "<")},
    r"[^|]+(?:\|[^|]+)+": lambda found: {"kind": "category", "values": _parted(found[0], "|")},
}  # fmt: skip
SUGGESTED = {"number": "LOW..HIGH", "category": "WORD|WORD|WORD", "boolean": "YES/NO"}
SUGGESTED |= {"date": "2000-01-01..2024-12-31", "ordered": "LOW < MIDDLE < HIGH"}
# What a draft says of a column with a type: the words of a stored boolean are known, nothing else is.
_DRAFTED = {"boolean": "true/false", "category": "WORD|WORD|WORD", "date": "YYYY-MM-DD..YYYY-MM-DD"}


def _parted(text: str, sign: str) -> list[str]:
    return [word.strip() for word in text.split(sign)]


def declared_lines(text: str, names: Sequence[str] | None = None, target: str | None = None) -> Schema:
    r"""The schema that lines declare; columns of a table that no line names are asked for, all mistakes at once.

    Blank lines and those that begin with # are skipped; `target` names the target where no line is marked as such.

    Examples:
        >>> text = "records = 600\nage: 0..110\nward: medicine|surgery\nill: yes/no [target]"
        >>> declared_lines(text).feature_names
        ('intercept', 'age', 'ward=medicine', 'ward=surgery')
    """
    checks = Checks()
    columns: dict[str, Keys] = {}
    settings: Keys = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            checks.attempt(_read_line, f"line {number}", line.strip(), tuple(names or ()), columns, settings)
    lacking = [name for name in names or () if name not in columns]
    for name in lacking:
        others = "" if sounds_like_an_identifier(name) else f" (a number), '{name}: yes/no' or '{name}: A|B|C'"
        checks.refused(InputError(f"Column {name!r} has no line. Write {suggested_line(name)!r}{others}."))
    if target in columns:
        columns[target]["target"] = True
    targets = [name for name, column in columns.items() if column.get("target")]
    unmarked = bool(lacking) and target is None and not targets
    wrong = {
        "No line marks the outcome. For a model, add [target] to one line.": unmarked,
        "The number of records is missing. Write 'records = 600'.": "records" not in settings,
        f"Expected one target, got {shown_names(targets)}; mark one of them.": len(targets) > 1,
    }
    for words in (words for words, holds in wrong.items() if holds):
        checks.refused(InputError(words))
    checks.finish()
    file = {key: settings.pop(key) for key in ("delimiter", "decimal", "encoding") if key in settings}
    document: Keys = {**HEAD, "intercept": True, "columns": [], **settings} | ({"file": file} if file else {})
    for name in names or columns:
        column = columns[name]
        if "unit" in column:
            document["unit"] = {"column": name, "most_records": column["unit"]}
        elif "weight" in column:
            document["weight"] = {"column": name, **column["weight"]}
        elif "kind" not in column:
            document["extra_columns"] = "ignore"
        elif column.pop("target", False):
            document["target"] = {"name": name} | column
        else:
            document["columns"].append({"name": name} | column)
    return schema_from_dict(document)


def check_line(line: str) -> None:
    """Refuse a single line that declares nothing."""
    columns: dict[str, Keys] = {}
    _read_line("your answer", line.strip(), (), columns, {})
    for name, column in columns.items():
        if "kind" in column:
            KINDS.read(name, {key: value for key, value in column.items() if key != "target"})


def _read_line(where: str, line: str, names: tuple[str, ...], columns: dict[str, Keys], settings: Keys) -> None:
    setting = re.fullmatch(r"(\w+)\s*=\s*(.+)", line)
    if setting and setting[1] in _SETTINGS:
        try:
            settings[setting[1]] = _SETTINGS[setting[1]](setting[2].strip())
        except (ValueError, KeyError):
            raise InputError(f"Expected a value for {setting[1]} in {where}, got {setting[2]!r}.") from None
        return
    # A name of the table may hold a colon: the longest one that fits is meant.
    known = max((name for name in names if re.match(rf"{re.escape(name)}\s*:", line)), key=len, default=None)
    name = line.split(":", 1)[0].strip() if known is None else known
    rest = line[len(name) :].lstrip()
    if not rest.startswith(":"):
        raise InputError(f"Expected 'NAME: DOMAIN' in {where}, got {line[:60]!r}; write for instance 'age: 0..110'.")
    if names and name not in names:
        raise InputError(f"Expected a column of the table in {where}, got {name!r}; it has {shown_names(names)}.")
    if name in columns:
        raise InputError(f"Column {name!r} has two lines, the second in {where}; remove one.")
    columns[name] = {}  # a line that says nothing is a mistake of its own, and no second one is made of it
    columns[name] = _domain(where, name, rest[1:].strip())


def _domain(where: str, name: str, text: str) -> Keys:
    options = re.search(r"\s*\[([^\[\]]*)\]$", text)
    domain = (text if options is None else text[: options.start()]).strip()
    if re.fullmatch(_RANGE, domain) and re.search(r"\d\.000(?!\d)", domain):
        got = f"{domain[:60]!r}: write 100000, or 100 without decimals"
        raise InputError(f"Bounds of {name!r} in {where} must have no marks of thousands, got {got}.")
    readings = ((made, re.fullmatch(pattern, domain)) for pattern, made in _DOMAINS.items())
    column = next((made(found) for made, found in readings if found is not None), None)
    if column is None:
        whole = re.sub(r"(?<=\d)[.,' ](?=\d{3}(?!\d))", "", domain)
        points = re.sub(r"(?<=\d),(?=\d)", ".", whole)
        if points != domain and re.fullmatch(_RANGE, points):
            wanted = "no marks of thousands" if points == whole else "a decimal point"
            bounds = f"the bounds of {name!r} in {where}"
            raise InputError(f"Expected {wanted} in {bounds}, got {domain[:60]!r}; write '{name}: {points}'.")
        how = "write a range '0..110', words 'a|b|c', an order 'low < high', 'yes/no', 'unit of 8' or 'ignore'"
        raise InputError(f"Expected what column {name!r} may hold in {where}, got {domain[:60]!r}; {how}.")
    kind = KINDS.table.get(column.get("kind", ""))
    known = (*_FLAGS, *(one.name for one in keys_of(kind))) if kind is not None else ("target",)
    for option in options[1].split(",") if options and options[1].strip() else ():
        key, _, value = (part.strip() for part in option.partition("="))
        if key not in known:
            raise InputError(f"Expected an option among {shown_names(known)} in {where}, got {key!r}; correct it.")
        constant: Any = value
        if column.get("kind") == "boolean":
            constant = {"true": True, "false": False}.get(value, value)
        elif column.get("kind") == "number" and re.fullmatch(_NUMBER, value):
            constant = float(value)
        plain = key != "missing" or value in ("refuse", "indicator")
        column[key] = True if key in _FLAGS and not value else value if plain else {"value": constant}
    return column


def codebook_lines(document: Any) -> list[str]:
    """Lines that a codebook declares: Table Schema of Frictionless, or CSVW; columns without bounds get none.

    >>> codebook_lines({"fields": [{"name": "age", "constraints": {"minimum": 0, "maximum": 110}}]})
    ['age: 0..110']
    """
    inner = document if isinstance(document, dict) else {}
    for key in ("resources", "tables"):
        inner = inner[key][0] if isinstance(inner.get(key), list) and inner[key] else inner
    inner = inner.get("schema") or inner.get("tableSchema") or inner
    columns = inner.get("fields") or inner.get("columns")
    if not isinstance(columns, list) or not all(isinstance(one, dict) for one in columns):
        raise InputError("This JSON file is no codebook. Use Table Schema (Frictionless) with fields, or CSVW.")
    lines = [line for one in columns if (line := _codebook_line(one)) is not None]
    tokens = [word for word in inner.get("missingValues") or () if isinstance(word, str) and word]
    return [*lines, *([f"missing_tokens = {'|'.join(tokens)}"] if tokens else [])]


def _codebook_line(column: Keys) -> str | None:
    """The line of one column of a codebook, where it says enough."""
    titles = column.get("titles")
    name = str(column.get("name") or (titles[0] if isinstance(titles, list) and titles else titles))
    datatype = column.get("datatype")
    type_ = datatype if isinstance(datatype, dict) else {"base": datatype or column.get("type")}
    rules = {**type_, **(column.get("constraints") or {})}
    low, high, words = rules.get("minimum"), rules.get("maximum"), rules.get("enum")
    if rules["base"] == "boolean":
        ends = [(column.get(f"{side}Values") or [side])[0] for side in ("true", "false")]
        return f"{name}: {'/'.join(ends)}"
    if words:
        return f"{name}: {'|'.join(map(str, words))}" if len(words) > 1 else None
    if low is None or high is None:
        return None
    spelling = str(column.get("format") or rules.get("format") or "")
    return f"{name}: {low}..{high}" + (f" [format={spelling}]" if "%" in spelling else "")


def suggested_line(name: str, kind: str | None = None) -> str:
    """A line to fill in for a column, by its kind where a file says so, or by its name."""
    if kind is None and sounds_like_an_identifier(name):
        return f"{name}: unit of 8"
    return f"{name}: {SUGGESTED.get(kind or 'number', SUGGESTED['number'])}"


def drafted_lines(names: Sequence[str], types: Mapping[str, str], target: str | None, unit: str | None) -> str:
    """A line for each column, to be filled in: none of them declares anything before.

    >>> print(drafted_lines(("age", "ill"), {"ill": "boolean"}, "ill", None).strip().partition(chr(10))[2])
    records = HOW MANY
    age: LOW..HIGH
    ill: true/false [target]
    """
    if len(names) > MOST_DECLARED:
        raise InputError(f"A draft has at most {MOST_DECLARED} columns, got {len(names)}; name some by `--column`.")
    if unknown := [name for name in (target, unit) if name is not None and name not in names]:
        raise InputError(f"Expected names among {shown_names(names)}, got {shown_names(unknown)}; check the spelling.")
    how = "0..110, a|b|c, yes/no, I < II, unit of 8, or ignore"
    lines = [f"# Fill in from public knowledge, not from the rows: {how}.", "records = HOW MANY"]
    for name in names:
        person = name == unit or (unit is None and name not in types and sounds_like_an_identifier(name))
        domain = "unit of HOW MANY" if person else _DRAFTED.get(types.get(name, ""), SUGGESTED["number"])
        lines.append(f"{name}: {domain}{' [target]' if name == target else ''}")
    return "\n".join(lines) + "\n"


def with_formula(schema: Schema, formula: str) -> Schema:
    r"""The schema of a model that a formula describes.

    A formula is the target, a tilde, and terms joined by +; a:b is a product, a*b is a + b + a:b. Names with blanks
    stand in backticks, functions are refused. The intercept is always part of the model; other columns are ignored.

    Examples:
        >>> from sordino.data import declared_lines
        >>> schema = declared_lines("records = 9\nage: 0..110\nward: a|b\nill: yes/no [target]")
        >>> with_formula(schema, "ill ~ age*ward").feature_names
        ('intercept', 'age', 'ward=a', 'ward=b', 'age:ward=b')
    """
    left, terms = _terms(formula)
    known = {column.name: column.kind for column in schema.declared_columns()}
    checks = Checks()
    if len(left) != 1 or len(left[0]) != 1:
        checks.refused(InputError(f"Expected one target before the tilde, got {formula!r}; write 'target ~ a + b'."))
    named = [name for term in (*left, *terms) for name in term]
    absent = tuple(dict.fromkeys(name for name in named if name not in known))
    if absent:
        wrong = f"Expected names of declared columns in the formula, got {shown_names(absent)}"
        checks.refused(InputError(f"{wrong}; the schema declares {shown_names(known)}. Declare what you transform."))
    if not terms:
        checks.refused(InputError(f"{formula!r} has no term after the tilde."))
    if any(len(term) > 3 or len(set(term)) < len(term) for term in terms):
        checks.refused(InputError("Products in a formula must be of two or three different columns."))
    checks.finish()
    target = left[0][0]
    if any(target in term for term in terms):
        raise InputError(f"{target!r} is on both sides of the tilde. The target cannot be a feature.")
    features: list[Feature] = []
    for term in terms:
        if len(term) == 1:
            features.append(Feature(term[0], known[term[0]]))
            continue
        factors = []
        for name in term:
            kind = known[name]
            words = kind.values[1:] if isinstance(kind, Category) else (None,)
            if not words:
                raise InputError(f"The product {name!r} needs at least two words.")
            factors.append([Factor(column=name, kind=kind, word=word) for word in words])
        called = {part: part.column if part.word is None else f"{part.column}={part.word}" for part in chain(*factors)}
        features += [Feature(":".join(map(called.__getitem__, one)), Interaction(one)) for one in product(*factors)]
    kind = replace(known[target], drop_first=False) if isinstance(known[target], Category) else known[target]
    charged = tuple(name for name in schema.charged or () if name in {*(one.name for one in features), target})
    chosen = {"features": tuple(features), "target": Target(target, kind), "charged": charged or None}
    return replace(schema, **chosen, intercept=True, extra_columns=ExtraColumns.IGNORE)


def _terms(formula: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The names in each term on both sides of the tilde, in order; products last."""
    try:
        from formulaic import Formula  # noqa: PLC0415
    except ImportError:
        raise InputError("Formulas need the package formulaic. Install sordino[formula].") from None
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise InputError(f"Expected a formula with one tilde, got {str(formula)[:60]!r}; write 'target ~ a + b'.")
    read: Any = Formula
    try:
        parsed = read(formula)
        sides = [list(side) for side in (parsed.lhs, parsed.rhs)]
    except Exception as error:  # formulaic has many kinds of its own
        words = str(error).splitlines()[0][:100].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"Expected a formula that can be read, got {formula[:60]!r}: {words}.") from None
    if not any(str(term) == "1" for term in sides[1]):
        raise InputError("A formula needs its intercept. Remove '0' and '-1'.")
    left, right = ([term.factors for term in side if str(term) != "1"] for side in sides)
    for factors in (*left, *right):
        if odd := [factor.expr for factor in factors if factor.eval_method.value != "lookup"]:
            remedy = "transform columns by public rules before, and declare the result"
            raise InputError(f"Expected names of declared columns, got {shown_names(odd)}; {remedy}.")
    return [tuple(one.expr for one in term) for term in left], [tuple(one.expr for one in term) for term in right]
