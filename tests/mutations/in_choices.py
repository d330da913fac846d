"""Mistakes in choices, checks and comparisons: in what a record adds, in noise, and in the law of the choice."""

from tests.mutations.mutation import mutations

IN_CHOICES = mutations(
    """
@@ score: half the noise | ScoreNoise.released | choose/test_scored_rows.py -k replay
- self.deviation / moved
+ 0.5 * self.deviation / moved
@@ score: all records of a unit count fully | record_weights | choose/test_scored_rows.py -k search
- return (ONE // np.maximum(np.bincount(units, minlength=1), 1))[units]
+ return np.full(rows, ONE, np.int64)
@@ score: a replaced record moves bands by sqrt 2 |  | choose/test_scored_rows.py -k search
- BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), 2.0)
+ BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), up(math.sqrt(2.0)))
@@ choice: the score is not in the certificate | ChoicePlan.of | choose/test_choice.py -k replay or counts
- together = up(math.hypot(largest, _LOSS.under(relation) / score.deviation), 4)
+ together = largest
@@ choice: the certificate is that of the first candidate at half its cost
@@ | ChoicePlan.of | choose/test_choice.py -k replay or counts
- largest = max(spent(plan.spec, relation) for _, plan in plans)
+ largest = 0.5 * spent(plans[0][1].spec, relation)
@@ choice: a fixed number of trials | best_of_trials | choose/test_choice.py -k law_that
- int(generator.integers(0, _COIN)) < parts
+ int(generator.integers(0, 2)) == 0 and parts
@@ choice: who came first wins | best_of_trials | choose/test_choice.py -k told_apart
- found[:2] < best[:2]
+ found.loss < best.loss
@@ choice: rows are read before the debit | choose | choose/test_choice.py -k before_a_row
  sources = Sources(random_state)
+ read_rows([plan.declaration for plan in made.plans], related, data, RowAccess(None, None))
@@ choice: the loss over the actual number of records | choose.run | replay/test_whole_releases.py -k choose
- best.loss / public.records
+ best.loss / len(rows[0].y)
@@ comparison: losses over the actual number of records | compare.answer | replay/test_whole_releases.py -k compare
- _compared(list(releases), noised, plan.noise.deviation, schema.records, inside)
+ _compared(list(releases), noised, plan.noise.deviation, len(data['age']), inside)
@@ comparison: rows are read before the debit | SumPlan.charged | replay/test_whole_releases.py -k debit and compare
  sources = Sources(random_state)
+ read_rows(declarations, self.relation, data, RowAccess(None, None))
@@ check: rows are read before the debit | check | replay/test_whole_releases.py -k debit and check
  unit = 1.0 if predictor.task.classifies else CUT
+ read_rows([declaration], relation, data, RowAccess(None, None))
@@ check: bands are told where there are enough records | check.answer | replay/test_whole_releases.py -k check
  made = _bands(edges, noised, plan.noise.deviation, inside, unit)
+ made = made[: len(data["age"]) // 50]
"""
)
