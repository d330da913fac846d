"""Mistakes in the code that fits, each with a release that it spoils, and how to make them in the running code."""

import importlib
import warnings
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

import sordino
from sordino.data import declared_lines
from sordino.estimators.fitting import fit_table
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
    """A mistake, and the table and relation of the fit that it spoils."""

    name: str
    where: str
    old: str
    new: str
    table: str = "classes"
    relation: str = "add-remove"


PLANTED = (
    Planted(
        "half the noise on later gradients",
        "Followed.noise",
        "one.multiplier * self.plan.sensitivity(one, bound) * HAIR",
        "one.multiplier * self.plan.sensitivity(one, bound) * (0.5 if name[:3] == 'gra' and name[-1] > '1' else HAIR)",
    ),
    Planted(
        "half of what is drawn, in the first call alone",
        "noised_sums",
        "noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent))",
        "noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)) // (2 if part.start == 0 else 1)",
    ),
    Planted(
        "gradients that are longer than their bound, from the second on",
        "Contributions._pulls",
        "shorter = found * (most / np.maximum(row_lengths(found), most))[:, None]",
        "shorter = found * (1.0 if bound <= 0.5 else 1.3)",
    ),
    Planted(
        "a centre that categories are said to move by 1",
        "centre_bounds",
        "squares += 1.0 if len(places) == 1 else 2.0",
        "squares += 1.0",
        "numbers",
        "replace-one",
    ),
    Planted(
        "missing cells filled by the mean of the others",
        "Measurement.read",
        "values[missing] = self.fill",
        "values[missing] = np.nan_to_num(np.nanmean(values), nan=self.fill)",
    ),
    Planted(
        "one cell of another type changes how a list is read",
        "_column",
        "return Objects.of(given)",
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
        "fit",
        "(*plan.cautions, *cautions)",
        "(*plan.cautions, *cautions, f'{len(X)} records were read.')",
    ),
    Planted(
        "a schema with the actual number of records",
        "fit",
        "named_in_ledger(ledger, entry, release)",
        "named_in_ledger(ledger, entry, replace(release, schema=replace(schema, records=len(X))))",
    ),
    Planted(
        "a delta that depends on the number of records",
        "fit",
        "named_in_ledger(ledger, entry, release)",
        "named_in_ledger(ledger, entry, replace(release, delta=release.delta * (1.0 + 1e-3 * len(X))))",
    ),
    Planted(
        "a word about preprocessing that depends on the rows",
        "fit",
        "named_in_ledger(ledger, entry, release)",
        "named_in_ledger(ledger, entry, replace(release, "
        "preprocessing=CALLERS_WORD if len(X) % 2 else release.preprocessing))",
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
    """Give the function the code that it has with the mistake, wherever it was imported."""
    (place,) = places(PACKAGE, mutation := Mutation(bug.name, bug.where, bug.old, bug.new, ()))
    module = importlib.import_module(".".join(place.file.relative_to(PACKAGE.parent).with_suffix("").parts))
    outer = bug.where.split(".")
    code = compile(mutated(place, mutation), str(place.file), "exec")
    target: Any = module
    for name in outer:
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)
        found = getattr(target, name, None)
        if found is None:  # a function inside: the outer one is exchanged
            break
        target, whole = found, code
    monkeypatch.setattr(target, "__code__", whole)


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
