"""Mistakes in the code that fits, each with a release that it spoils, and how to make them in the running code."""

import importlib
import warnings
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

import sordino
from sordino.data import declared_lines
from sordino.fitting.fit import fit_table
from sordino.ledger.release import StoredRelease
from tests.mutations.mutation import mutated, mutations, places

PACKAGE = Path(sordino.__file__).parent
RECORDS = 240
_NUMBERS = "a: -1..1\nc: 0..10 [missing=5]\n"
LINES = {
    "classes": _NUMBERS + "b: 1|2|3 [unseen=other]\ny: yes/no [target]",
    "numbers": _NUMBERS + "b: p|q|r|s [drop_first]\ny: -5..5 [target]",
    "people": "a: -1..1\ny: yes/no [target]\nwho: unit of 3",
}


# Each with the table and the relation of the fit that it spoils; several of one name where one alone does no harm, as a
# wrong clip does not: a unit that is longer than its bound counts as zero.
PLANTED = mutations(
    """
@@ half the noise on later gradients | release_sums.answer | classes add-remove
- one.multiplier
+ one.multiplier * (0.5 if 'gra' in one.name and len(found) > 12 else 1.0)
@@ half of what is drawn, in the first call alone | SumNoise.noised | classes add-remove
- self._drawn.rounded(part, offsets, in_cells)
+ self._drawn.rounded(part, offsets, in_cells) // (2 if part.start == 0 else 1)
@@ half the noise on the last call | release_sums.answer | classes add-remove
- one.multiplier
+ one.multiplier * (0.5 if one is plan.mechanisms[-1] else 1.0)
@@ residuals that are cut on one side alone | Linear.says | numbers add-remove
- np.clip(e, -at.cut, at.cut)
+ np.maximum(e, -at.cut)
@@ residuals that are cut on one side alone | FitRound.pulls | numbers add-remove
- shorten(found, self.gradient_bound)
+ np.where(found[:, :1] > 0.0, found, shorten(found, self.gradient_bound))
@@ residuals that are cut on one side alone | Contributions.total | numbers add-remove
- self._pass(~refused)[0] if refused.any() else total
+ total
@@ gradients that are longer than their bound, from the second on | Contributions.total | classes add-remove
- self._pass(~refused)[0] if refused.any() else total
+ total
@@ gradients that are longer than their bound, from the second on | FitRound.pulls | classes add-remove
- shorten(found, self.gradient_bound)
+ found * (1.0 if self.gradient_bound <= 0.5 else 1.3)
@@ a centre that categories are said to move by 1 | Centre.declared | numbers replace-one
- squares += 1.0 if len(places) == 1 else 2.0
+ squares += 1.0
@@ missing cells filled by the mean of the others | Measurement.read | classes add-remove
- values[missing] = self.fill
+ values[missing] = self.fill if missing.all() else values[~missing].mean()
@@ values outside become the largest of the others | Measurement.read | classes add-remove
- np.clip(values, self.low, self.high, out=values)
+ np.clip(values, self.low, max([self.low, *values[values <= self.high]]), out=values)
@@ an undeclared word is read as that of the row before | Category.read | classes add-remove
- codes[unseen] = len(self.values)
+ codes[unseen] = np.where(np.roll(codes, 1) < 0, len(self.values), np.roll(codes, 1))[unseen]
@@ one cell of another type changes how a list is read | _column | classes add-remove
- return raw_columns.ObjectColumn.of(given)
+ return _array_column(np.asarray(given))
@@ one undeclared word makes all words other | Category.read | classes add-remove
- codes[unseen] = len(self.values)
+ codes[unseen | unseen.any()] = len(self.values)
@@ a caution that tells how many records there are | fit.run | classes add-remove
- (*plan.cautions, *outcome.cautions, *cautions)
+ (*plan.cautions, *outcome.cautions, *cautions, f'{len(given.read(given.declaration)[0])} records were read.')
@@ a schema with the actual number of records | fit | classes add-remove
- Fit(plan, explanation, release)
+ Fit(plan, explanation, replace(release,
+     schema=replace(schema, records=len(given.read(given.declaration)[0]))))
@@ a word in the schema that says which class is larger | fit | classes add-remove
- Fit(plan, explanation, release)
+ Fit(plan, explanation, replace(release,
+     schema=replace(schema, description='mostly yes'
+     if (given.read(given.declaration)[1] > 0).mean() > 0.5 else 'mostly no')))
@@ a delta that depends on the number of records | fit | classes add-remove
- Fit(plan, explanation, release)
+ Fit(plan, explanation, replace(release,
+     delta=release.delta * (1.0 + 1e-3 * len(given.read(given.declaration)[0]))))
@@ a word about preprocessing that depends on the rows | fit | classes add-remove
- Fit(plan, explanation, release)
+ Fit(plan, explanation, replace(release,
+     preprocessing=CALLERS_WORD if len(given.read(given.declaration)[0]) % 2 else release.preprocessing))
@@ a fixed key | Sources.fresh | classes add-remove
- return SecureRandomness()
+ return SecureRandomness().resumed({"kind": "secure", "key": bytes(range(32)).hex()})
@@ pieces of noise that share a key | SecureRandomness._of_group | classes add-remove
- f"whole numbers {part[0]} {part[1]}"
+ f"whole numbers {part[0]}"
@@ noise for the sensitivity of the statistic before | release_sums.answer | classes add-remove
- one.multiplier
+ plan.mechanisms[max(0, len(found) - 1)].multiplier
@@ a cell is read by the value of the one before | Measurement.scaled | numbers add-remove
- np.clip(values, *self.limits, out=values)
+ np.where(np.roll(values, 1) > 0.5, 1.0, 0.9) * np.clip(values, *self.limits, out=values)
@@ a sum that leaves out one record and doubles another | InMemory.__call__ | classes add-remove
- total += statistic.of(rows)
+ more = statistic.of(rows)
+ total += (more + more // max(1, len(rows.y) - 1))
@@ a debit of half the run | _debited | classes add-remove
- ledger.debit(bounds, explanation.spec, run=checkpoint and checkpoint.name)
+ ledger.debit([type(one)(type(one.guarantee)(one.guarantee.mu / 2), one.relation, one.view, (), one.theorem,
+     one.citation, one.status) for one in bounds if hasattr(one.guarantee, 'mu')], explanation.spec)
@@ a caution that one large value makes | fit.run | classes add-remove
- (*plan.cautions, *outcome.cautions, *cautions)
+ (*plan.cautions, *outcome.cautions, *cautions,
+     *['A value is at its bound.'] * bool((given.read(given.declaration)[0][:, 1] >= 1.0).any()))
@@ rows that are read before the debit | fit | classes add-remove
- explanation = explain(plan.spec, problem.delta)
+ explanation = explain(plan.spec, problem.delta if len(given.read(given.declaration)[0]) else problem.delta)
@@ cells that another row has too count as zero | Measurement.scaled | numbers add-remove
- np.clip(values, *self.limits, out=values)
+ np.clip(values * np.array([(values == one).sum() < 2 for one in values]), *self.limits, out=values)
@@ rows that are cut by their median length | Scatter.contributions | numbers add-remove
- shorten(self.scaled(rows), self.cut)
+ shorten(
+     scaled := self.scaled(rows),
+     min([self.cut, *[1.2 * np.median(np.linalg.norm(scaled, axis=1))] * bool(len(scaled))]),
+ )
@@ a caution where two rows are equal | fit.run | classes add-remove
- (*plan.cautions, *outcome.cautions, *cautions)
+ (*plan.cautions, *outcome.cautions, *cautions,
+     *['Equal.'] * (len(np.unique(found := given.read(given.declaration)[0], axis=0)) < len(found)))
@@ a caution where no row is there | fit.run | classes add-remove
- (*plan.cautions, *outcome.cautions, *cautions)
+ (*plan.cautions, *outcome.cautions, *cautions, *['Empty.'] * (len(given.read(given.declaration)[0]) == 0))
@@ a caution where one class is absent | fit.run | classes add-remove
- (*plan.cautions, *outcome.cautions, *cautions)
+ (*plan.cautions, *outcome.cautions, *cautions,
+     *['One class.'] * (len(set(given.read(given.declaration)[1].tolist())) < 2))
@@ half the noise for an even number of rows | release_sums.answer | classes add-remove
- one.multiplier
+ one.multiplier * (0.5 if summed.units % 2 == 0 else 1.0)
@@ blanks around a name make another unit | keys.code | people add-remove
- plain = word.strip()
+ plain = word
"""
)
NAMES = list(dict.fromkeys(row.name for row in PLANTED))


def plant(monkeypatch: Any, name: str) -> tuple[str, str]:
    """Give functions, wherever they were imported, the code that they have with a mistake; its table and relation."""
    mistakes = [row for row in PLANTED if row.name == name]
    for mistake in mistakes:
        (place,) = places(PACKAGE, mistake)
        target: Any = importlib.import_module(".".join(place.file.relative_to(PACKAGE.parent).with_suffix("").parts))
        code = compile(mutated(place, mistake), str(place.file), "exec")
        for word in mistake.where.split("."):
            code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == word)
            found = getattr(target, word, None)
            if found is None:  # a function inside: the outer one is exchanged
                break
            target, whole = found, code
        # A class method is bound to its class; the code is that of its function.
        monkeypatch.setattr(getattr(target, "__func__", target), "__code__", whole)
    table, relation = mistakes[0].tests.split()
    return table, relation


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
