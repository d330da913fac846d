"""Mistakes in looks: in what a record adds, in the noise of a question, and in the order of debit and reading."""

from tests.mutations.mutation import Mutation

_QUESTIONS = "mechanisms/statistics/questions.py"
_LOOK, _PLAN = "explore/looks.py", "explore/look_plan.py"
_SEARCH = ("tests/look/test_sensitivity.py", "-k", "search")
_REPLAY = ("tests/look/test_sensitivity.py", "-k", "replay or noise")
_VERB = ("tests/look/test_look.py", "-k", "spent or debit")
IN_LOOKS = (
    Mutation(
        "look: half the noise",
        "LookPlan._round",
        "np.full(len(one), noise[place] * (1.0 + HAIR))",
        "np.full(len(one), noise[place] * 0.5)",
        _REPLAY,
    ),
    Mutation(
        "look: every question has the whole budget",
        "LookPlan.of",
        "share = 1.0 / len(charged)",
        "share = 1.0",
        ("tests/look/test_look.py", "-k", "one_charge"),
    ),
    Mutation(
        "look: noise of add-remove under replace-one",
        "_moved",
        "return one.question.lengths.under(relation)",
        "return one.question.lengths.added",
        _REPLAY,
    ),
    Mutation(
        "look: the second round of bounds is not in the spec",
        "_spec",
        "full_sums(query, schema, longest, 1.0 if replaced else None, multipliers, len(mus))",
        "full_sums(query, schema, longest, 1.0 if replaced else None, multipliers, 1)",
        ("tests/look/test_sensitivity.py", "tests/look/test_look.py", "-k", "replay or one_charge"),
    ),
    Mutation(
        "look: numbers are not cut to their bounds",
        "Rows.scaled",
        "return np.clip((np.clip(self.raw(name), kind.low, kind.high) - middle) / half, -1.0, 1.0)",
        "return (self.raw(name) - middle) / half",
        _SEARCH,
    ),
    Mutation(
        "look: all records of a unit count fully",
        "record_weights",
        "return (ONE // np.maximum(sizes, 1))[units]",
        "return np.full(rows, ONE, np.int64)",
        _SEARCH,
    ),
    Mutation(
        "look: a replaced record moves a histogram by 1",
        "",
        "ONE_OF_MANY = Lengths(1.0, _SQRT2)",
        "ONE_OF_MANY = Lengths(1.0, 1.0)",
        _SEARCH,
    ),
    Mutation(
        "look: products of units' records at the length of one product",
        "Correlation.lengths",
        "return Lengths(longest, (2.0 if self.several_records else _SQRT2) * longest)",
        "return Lengths(longest, longest)",
        _SEARCH,
    ),
    Mutation(
        "look: rows are read before the debit",
        "look",
        "sources = sources_of(random_state)",
        """\
sources = sources_of(random_state)
read_table(declared.source(data))
""",
        _VERB,
    ),
    Mutation(
        "look: the number of rows instead of the declared one",
        "LookPlan.answered",
        "one.question.refined(*ends, self.schema.records, self.noise[place])",
        "one.question.refined(*ends, rows.number, self.noise[place])",
        ("tests/look/test_answers.py", "-k", "nowhere"),
    ),
)
