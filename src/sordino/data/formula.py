"""Formulas such as ``readmitted ~ age + ward + age:ward``: which declared columns a model takes, and their products.

A formula chooses from a schema; it declares nothing by itself, so every bound comes from the schema's columns, that of
a product too. formulaic reads the formula, no row. A category in a product leaves out its first word, as a baseline.
"""

from dataclasses import replace
from itertools import product
from typing import Any

from sordino.core.validate import Checks, InputError
from sordino.data.columns.category import Category
from sordino.data.columns.interaction import Factor, Interaction
from sordino.data.schema import ExtraColumns, Feature, Schema, Target
from sordino.data.words import shown_names


def with_formula(schema: Schema, formula: str) -> Schema:
    r"""The schema of a model that a formula describes.

    Args:
        schema: declares every column that the formula names.
        formula: the target, a tilde, and terms joined by +; a:b is a product, a*b is a + b + a:b. Names with blanks
            stand in backticks. The intercept is always part of the model.

    Returns:
        A `Schema` with the target and features of the formula; other columns are ignored.

    Raises:
        InputError: for names that are not declared, functions, and whatever else is not a name or a product of names.

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
        checks.refused(
            InputError(
                f"Expected names of declared columns in the formula, got {shown_names(absent)}; the schema declares "
                f"{shown_names(known)}. Transform columns by public rules before, and declare the result."
            )
        )
    if not terms:
        checks.refused(InputError(f"Expected a term behind the tilde, got none in {formula!r}."))
    if any(len(term) > 3 or len(set(term)) < len(term) for term in terms):
        checks.refused(InputError("Expected products of two or three different columns, got others in the formula."))
    checks.finish()
    target = left[0][0]
    if any(target in term for term in terms):
        raise InputError(f"Expected a target that is no feature, got {target!r} on both sides of the tilde.")
    features = [feature for term in terms for feature in _features(known, term)]
    kind = replace(known[target], drop_first=False) if isinstance(known[target], Category) else known[target]
    charged = tuple(name for name in schema.charged or () if name in {*(one.name for one in features), target})
    return replace(
        schema,
        features=tuple(features),
        target=Target(target, kind),
        intercept=True,
        extra_columns=ExtraColumns.IGNORE,
        charged=charged or None,
    )


def _features(known: dict[str, Any], term: tuple[str, ...]) -> list[Feature]:
    if len(term) == 1:
        return [Feature(term[0], known[term[0]])]
    factors = []
    for name in term:
        kind = known[name]
        words = kind.values[1:] if isinstance(kind, Category) else (None,)
        if not words:
            raise InputError(f"Expected at least two words in {name!r} for a product, got one; leave it out.")
        factors.append([Factor(column=name, kind=kind, word=word) for word in words])
    called = {
        part: part.column if part.word is None else f"{part.column}={part.word}" for one in factors for part in one
    }
    return [Feature(":".join(called[part] for part in parts), Interaction(parts)) for parts in product(*factors)]


def _terms(formula: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The names in each term on both sides of the tilde, in order; products last."""
    try:
        from formulaic import Formula  # noqa: PLC0415
    except ImportError:
        raise InputError("Expected the package formulaic for a formula, got none; install sordino[formula].") from None
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise InputError(f"Expected a formula with one tilde, got {str(formula)[:60]!r}; write 'target ~ a + b'.")
    try:
        read: Any = Formula
        parsed = read(formula)
        sides = [list(side) for side in (parsed.lhs, parsed.rhs)]
    except Exception as error:  # formulaic has many kinds of its own
        words = str(error).splitlines()[0][:100].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"Expected a formula that can be read, got {formula[:60]!r}: {words}.") from None
    if not any(str(term) == "1" for term in sides[1]):
        raise InputError("Expected a formula with an intercept, got one without; leave out '0' and '-1'.")
    found = []
    for side in sides:
        terms = []
        for term in side:
            if str(term) == "1":
                continue
            odd = [factor.expr for factor in term.factors if factor.eval_method.value != "lookup"]
            if odd:
                raise InputError(
                    f"Expected names of declared columns in the formula, got {shown_names(odd)}; transform columns by "
                    "public rules before, and declare the result."
                )
            terms.append(tuple(factor.expr for factor in term.factors))
        found.append(terms)
    return found[0], found[1]
