"""Mistakes in the code that fits, each with a release that it spoils, and how to make them in the running code."""

import importlib
import warnings
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

import sordino
from sordino.data import declared_lines
from sordino.fitting.fit import fit_table
from sordino.ledger.release import StoredRelease
from tests.mutations.mutation import Mutation, mutated, places

PACKAGE = Path(sordino.__file__).parent
RECORDS = 240
_NUMBERS = "a: -1..1\nc: 0..10 [missing=5]\n"
LINES = {
    "classes": _NUMBERS + "b: 1|2|3 [unseen=other]\ny: yes/no [target]",
    "numbers": _NUMBERS + "b: p|q|r|s [drop_first]\ny: -5..5 [target]",
    "people": "a: -1..1\ny: yes/no [target]\nwho: unit of 3",
}


class Planted(NamedTuple):
    """A mistake, the table and relation of the fit that it spoils, and a second place where one alone does no harm."""

    name: str
    where: str
    old: str
    new: str
    table: str = "classes"
    relation: str = "add-remove"
    also: tuple[str, str, str] | None = None


PLANTED = (
    Planted(
        "half the noise on later gradients",
        "release_sums",
        "one.multiplier * statistic.sensitivity(plan.relation) * HAIR",
        "one.multiplier * statistic.sensitivity(plan.relation) * (0.5 if 'gra' in one.name and place > 12 else HAIR)",
    ),
    Planted(
        "half of what is drawn, in the first call alone",
        "noised_sums",
        "noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent))",
        "noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)) // (2 if part.start == 0 else 1)",
    ),
    Planted(
        "half the noise on the last call",
        "release_sums",
        "one.multiplier * statistic.sensitivity(plan.relation) * HAIR",
        "one.multiplier * statistic.sensitivity(plan.relation) * (0.5 if one is plan.mechanisms[-1] else HAIR)",
    ),
    Planted(
        "residuals that are cut on one side alone",
        "Linear.says",
        "cut = np.clip(e, -at.cut, at.cut)",
        "cut = np.maximum(e, -at.cut)",
        "numbers",
        also=(
            "Round.pulls",
            "return shorten(found, self.gradient_bound) * masses",
            "return np.where(found[:, :1] > 0.0, found, shorten(found, self.gradient_bound)) * masses",
        ),
    ),
    Planted(
        "gradients that are longer than their bound, from the second on",
        "Round.pulls",
        "return shorten(found, self.gradient_bound) * masses",
        "return found * (1.0 if self.gradient_bound <= 0.5 else 1.3) * masses",
    ),
    Planted(
        "a centre that categories are said to move by 1",
        "Centre.declared",
        "squares += 1.0 if len(places) == 1 else 2.0",
        "squares += 1.0",
        "numbers",
        "replace-one",
    ),
    Planted(
        "missing cells filled by the mean of the others",
        "Measurement.read",
        "values[missing] = self.fill",
        "values[missing] = self.fill if missing.all() else values[~missing].mean()",
    ),
    Planted(
        "values outside become the largest of the others",
        "Measurement.read",
        "np.clip(values, self.low, self.high, out=values)",
        "np.clip(values, self.low, max([self.low, *values[values <= self.high]]), out=values)",
    ),
    Planted(
        "an undeclared word is read as that of the row before",
        "Category.read",
        "codes[unseen] = len(self.values)",
        "codes[unseen] = np.where(np.roll(codes, 1) < 0, len(self.values), np.roll(codes, 1))[unseen]",
    ),
    Planted(
        "one cell of another type changes how a list is read",
        "_column",
        "return ObjectColumn.of(given)",
        "return _array_column(np.asarray(given))",
    ),
    Planted(
        "one undeclared word makes all words other",
        "Category.read",
        "codes[unseen] = len(self.values)",
        "codes[unseen | unseen.any()] = len(self.values)",
    ),
    Planted(
        "a caution that tells how many records there are",
        "fit.run",
        "(*plan.cautions, *outcome.cautions, *cautions)",
        "(*plan.cautions, *outcome.cautions, *cautions, f'{len(given.read(given.declaration)[0])} records were read.')",
    ),
    Planted(
        "a schema with the actual number of records",
        "fit",
        "Fit(plan, explanation, outcome, release)",
        "Fit(plan, explanation, outcome, replace(release, "
        "schema=replace(schema, records=len(given.read(given.declaration)[0]))))",
    ),
    Planted(
        "a word in the schema that says which class is larger",
        "fit",
        "Fit(plan, explanation, outcome, release)",
        "Fit(plan, explanation, outcome, replace(release, "
        "schema=replace(schema, description='mostly yes' "
        "if (given.read(given.declaration)[1] > 0).mean() > 0.5 else 'mostly no')))",
    ),
    Planted(
        "a delta that depends on the number of records",
        "fit",
        "Fit(plan, explanation, outcome, release)",
        "Fit(plan, explanation, outcome, replace(release, "
        "delta=release.delta * (1.0 + 1e-3 * len(given.read(given.declaration)[0]))))",
    ),
    Planted(
        "a word about preprocessing that depends on the rows",
        "fit",
        "Fit(plan, explanation, outcome, release)",
        "Fit(plan, explanation, outcome, replace(release, "
        "preprocessing=CALLERS_WORD if len(given.read(given.declaration)[0]) % 2 else release.preprocessing))",
    ),
    Planted(
        "a fixed key",
        "Sources.fresh",
        "return SecureRandomness()",
        'return SecureRandomness().resumed({"kind": "secure", "key": bytes(range(32)).hex()})',
    ),
    Planted(
        "pieces of noise that share a key",
        "SecureRandomness._of_group",
        'f"whole numbers {group} {piece}"',
        'f"whole numbers {group}"',
    ),
    Planted(
        "blanks around a name make another unit",
        "keys.code",
        "plain = word.strip()",
        "plain = word",
        "people",
    ),
)


def plant(monkeypatch: Any, bug: Planted) -> None:
    """Give the functions the code that they have with the mistake, wherever they were imported."""
    for where, old, new in ((bug.where, bug.old, bug.new), *(() if bug.also is None else (bug.also,))):
        (place,) = places(PACKAGE, mutation := Mutation(bug.name, where, old, new, ()))
        target: Any = importlib.import_module(".".join(place.file.relative_to(PACKAGE.parent).with_suffix("").parts))
        code = compile(mutated(place, mutation), str(place.file), "exec")
        for name in where.split("."):
            code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)
            found = getattr(target, name, None)
            if found is None:  # a function inside: the outer one is exchanged
                break
            target, whole = found, code
        # A class method is bound to its class; the code is that of its function.
        monkeypatch.setattr(getattr(target, "__func__", target), "__code__", whole)


def fitted(table: str, relation: str, *, seed: int = 1) -> StoredRelease:
    """A seeded fit to a table of rows drawn at random."""
    generator = np.random.default_rng(seed)
    schema = declared_lines(f"records = {RECORDS}\n{LINES[table]}")
    columns: dict[str, Any] = {}
    for feature in (*schema.features, schema.target):
        low, high = getattr(feature.kind, "low", None), getattr(feature.kind, "high", None)
        words = getattr(feature.kind, "values", None) or ("no", "yes")
        drawn = generator.choice(words, RECORDS) if low is None else generator.uniform(low, high, RECORDS)
        columns[feature.name] = drawn
    if schema.unit_column is not None:
        columns[schema.unit_column] = np.arange(RECORDS).astype(str)
    task = "linear" if table == "numbers" else "logistic"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_table(
            task,
            columns,
            schema=schema,
            relation=relation,
            method="bounded-influence",
            epsilon=4.0,
            delta=1e-6,
            seed=seed,
        )
