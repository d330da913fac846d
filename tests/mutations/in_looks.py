"""Mistakes in looks: in what a record adds, in the noise of a question, and in the order of debit and reading."""

from tests.mutations.mutation import mutations

IN_LOOKS = mutations(
    """
@@ look: half the noise | LookPlan._round | look/test_sensitivity.py -k replay or noise
- noise[place] / moved
+ 0.5 * noise[place] / moved
@@ look: every question has the whole budget | LookPlan.of | look/test_look.py -k one_charge
- share = 1.0 / len(charged)
+ share = 1.0
@@ look: noise of add-remove under replace-one | _moved | look/test_sensitivity.py -k replay or noise
- return one.question.lengths.under(relation)
+ return one.question.lengths.added
@@ look: the second round of bounds is not in the spec
@@ | _spec | look/test_sensitivity.py look/test_look.py -k replay or one_charge
- full_sums(query, schema, longest, 1.0 if replaced else None, multipliers, len(mus))
+ full_sums(query, schema, longest, 1.0 if replaced else None, multipliers, 1)
@@ look: a replaced record moves a histogram by 1 |  | look/test_sensitivity.py -k search
- ONE_OF_MANY = Lengths(1.0, _SQRT2)
+ ONE_OF_MANY = Lengths(1.0, 1.0)
@@ look: products of units' records at the length of one product
@@ | Correlation.lengths | look/test_sensitivity.py -k search
- return Lengths(longest, (2.0 if self.several_records else _SQRT2) * longest)
+ return Lengths(longest, longest)
@@ look: rows are read before the debit | look | look/test_look.py -k spent or debit
  sources = Sources(random_state)
+ read_table(declared.source(data))
@@ look: the number of rows instead of the declared one | LookPlan.answered | look/test_answers.py -k nowhere
- question.refined(*(ends[k] or (-1.0, 1.0)), self.schema.records, self.noise[k])
+ question.refined(*(ends[k] or (-1.0, 1.0)), rows.units, self.noise[k])
"""
)
