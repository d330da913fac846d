"""Mistakes in choices, checks and comparisons: in what a record adds, in noise, and in the law of the choice."""

from tests.mutations.mutation import Mutation

_SUMS, _CHOICE = "algorithm/rounds/scored_sums.py", "estimators/choice.py"
_SEARCH = ("tests/choose/test_scored_rows.py", "-k", "search")
_REPLAY = ("tests/choose/test_choice.py", "-k", "replay or counts")
IN_CHOICES = (
    Mutation(
        "score: half the noise",
        _SUMS,
        "np.full(len(found.sums), self.deviation * (1.0 + HAIR))",
        "np.full(len(found.sums), self.deviation * 0.5)",
        ("tests/choose/test_scored_rows.py", "-k", "replay"),
    ),
    Mutation("score: uncut losses", _SUMS, "np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0)", "values", _SEARCH),
    Mutation(
        "score: residuals are not cut",
        _SUMS,
        "np.clip(np.nan_to_num(values, nan=0.0), -1.0, 1.0)",
        "np.nan_to_num(values, nan=0.0, posinf=9.0, neginf=-9.0)",
        _SEARCH,
    ),
    Mutation(
        "score: all records of a unit count fully",
        _SUMS,
        "return (ONE // np.maximum(sizes, 1))[units]",
        "return np.full(rows, ONE, np.int64)",
        _SEARCH,
    ),
    Mutation(
        "score: a replaced record moves bands by sqrt 2",
        _SUMS,
        "BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), 2.0)",
        "BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), up(math.sqrt(2.0)))",
        _SEARCH,
    ),
    Mutation(
        "choice: the score is not in the certificate",
        _CHOICE,
        "together = up(math.hypot(largest, _LOSS.under(relation) / score.deviation), 4)",
        "together = largest",
        _REPLAY,
    ),
    Mutation(
        "choice: the certificate is that of the first candidate at half its cost",
        _CHOICE,
        "largest = max(spent(plan.plan.spec, relation) for plan in plans)",
        "largest = 0.5 * spent(plans[0].plan.spec, relation)",
        _REPLAY,
    ),
    Mutation(
        "choice: a fixed number of trials",
        _CHOICE,
        "if int(generator.integers(0, _COIN)) < parts:",
        "if int(generator.integers(0, 2)) == 0 and parts:",
        ("tests/choose/test_choice.py", "-k", "law_that"),
    ),
    Mutation(
        "choice: who came first wins",
        _CHOICE,
        "(found.loss, found.key) < (best.loss, best.key)",
        "found.loss < best.loss",
        ("tests/choose/test_choice.py", "-k", "told_apart"),
    ),
    Mutation(
        "choice: rows are read before the debit",
        _CHOICE,
        "    entry = None if book is None else book.debit(known_bounds(made.explanation), made.spec)\n"
        "    table = after_debit(lambda: read_table(declared.source(data)), entry)\n"
        "    rows = read_rows([plan.declaration for plan in made.plans], related, table, entry)\n",
        "    table = read_table(declared.source(data))\n"
        "    rows = read_rows([plan.declaration for plan in made.plans], related, table, None)\n"
        "    entry = None if book is None else book.debit(known_bounds(made.explanation), made.spec)\n",
        ("tests/choose/test_choice.py", "-k", "before_a_row"),
    ),
)
