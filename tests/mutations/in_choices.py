"""Mistakes in choices, checks and comparisons: in what a record adds, in noise, and in the law of the choice."""

from tests.mutations.mutation import Mutation

_SUMS, _CHOICE = "mechanisms/statistics/scored_sums.py", "explore/selection.py"
_SEARCH = ("tests/choose/test_scored_rows.py", "-k", "search")
_REPLAY = ("tests/choose/test_choice.py", "-k", "replay or counts")
IN_CHOICES = (
    Mutation(
        "score: half the noise",
        "ScoreNoise.released",
        "np.full(len(found.sums), self.deviation * (1.0 + HAIR))",
        "np.full(len(found.sums), self.deviation * 0.5)",
        ("tests/choose/test_scored_rows.py", "-k", "replay"),
    ),
    Mutation("score: uncut losses", "totals", "np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0)", "values", _SEARCH),
    Mutation(
        "score: residuals are not cut",
        "band_sums",
        "np.clip(np.nan_to_num(values, nan=0.0), -1.0, 1.0)",
        "np.nan_to_num(values, nan=0.0, posinf=9.0, neginf=-9.0)",
        _SEARCH,
    ),
    Mutation(
        "score: all records of a unit count fully",
        "record_weights",
        "return (ONE // np.maximum(sizes, 1))[units]",
        "return np.full(rows, ONE, np.int64)",
        _SEARCH,
    ),
    Mutation(
        "score: a replaced record moves bands by sqrt 2",
        "",
        "BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), 2.0)",
        "BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), up(math.sqrt(2.0)))",
        _SEARCH,
    ),
    Mutation(
        "choice: the score is not in the certificate",
        "ChoicePlan.of",
        "together = up(math.hypot(largest, _LOSS.under(relation) / score.deviation), 4)",
        "together = largest",
        _REPLAY,
    ),
    Mutation(
        "choice: the certificate is that of the first candidate at half its cost",
        "ChoicePlan.of",
        "largest = max(spent(plan.plan.spec, relation) for plan in plans)",
        "largest = 0.5 * spent(plans[0].plan.spec, relation)",
        _REPLAY,
    ),
    Mutation(
        "choice: a fixed number of trials",
        "best_of_trials",
        """\
if int(generator.integers(0, _COIN)) < parts:
    return best
""",
        """\
if int(generator.integers(0, 2)) == 0 and parts:
    return best
""",
        ("tests/choose/test_choice.py", "-k", "law_that"),
    ),
    Mutation(
        "choice: who came first wins",
        "best_of_trials",
        "(found.loss, found.key) < (best.loss, best.key)",
        "found.loss < best.loss",
        ("tests/choose/test_choice.py", "-k", "told_apart"),
    ),
    Mutation(
        "choice: rows are read before the debit",
        "choose",
        "sources = sources_of(random_state)",
        """\
sources = sources_of(random_state)
read_rows([plan.declaration for plan in made.plans], related, data, RowAccess(None, None))
""",
        ("tests/choose/test_choice.py", "-k", "before_a_row"),
    ),
    Mutation(
        "choice: the loss over the actual number of records",
        "choose.run",
        "best.loss / declared.records",
        "best.loss / len(rows[0].y)",
        ("tests/replay/test_whole_releases.py", "-k", "choose"),
    ),
    Mutation(
        "comparison: losses over the actual number of records",
        "compare.answer",
        "_compared(list(releases), noised, plan.noise.deviation, schema.records, inside)",
        "_compared(list(releases), noised, plan.noise.deviation, len(data['age']), inside)",
        ("tests/replay/test_whole_releases.py", "-k", "compare"),
    ),
    Mutation(
        "comparison: rows are read before the debit",
        "SumPlan.charged",
        "sources = sources_of(random_state)",
        """\
sources = sources_of(random_state)
read_rows(declarations, self.relation, data, RowAccess(None, None))
""",
        ("tests/replay/test_whole_releases.py", "-k", "debit and compare"),
    ),
    Mutation(
        "check: rows are read before the debit",
        "check",
        "unit = _unit_of(predictor)",
        """\
unit = _unit_of(predictor)
read_rows([declaration], relation, data, RowAccess(None, None))
""",
        ("tests/replay/test_whole_releases.py", "-k", "debit and check"),
    ),
    Mutation(
        "check: bands are told where there are enough records",
        "check.answer",
        "made = _bands(edges, noised, plan.noise.deviation, inside, unit)",
        """\
made = _bands(edges, noised, plan.noise.deviation, inside, unit)
made = made[: len(data["age"]) // 50]
""",
        ("tests/replay/test_whole_releases.py", "-k", "check"),
    ),
)
