"""Mistakes in batches, and in what is accounted for records that take part by chance."""

from tests.mutations.mutation import Mutation, engines

_ALLOCATION = ("tests/accounting/bounds/renyi/test_random_allocation.py", "-k", "quadrature or patterns")
_BATCHES = ("tests/mechanisms/chain/test_batches.py",)
_PURE = ("tests/mechanisms/chain/test_functional.py",)
IN_SAMPLING = (
    Mutation(
        "batches: a new order is the old one",
        "Passes.order",
        """\
if earlier is not None and not self.redrawn:
    return earlier
""",
        """\
if earlier is not None:
    return earlier
""",
        _BATCHES,
    ),
    Mutation(
        "batches: Poisson at twice the rate",
        "Poisson.__init__",
        "-math.log1p(-sampling.rate)",
        "-2.0 * math.log1p(-sampling.rate)",
        _BATCHES,
    ),
    Mutation(
        "random allocation: one use too few",
        "RandomAllocation._drawn",
        "uniform_subsets(self.sampling.generator, self._length, uses, rows).reshape(-1)",
        "uniform_subsets(self.sampling.generator, self._length, uses, rows).reshape(-1) * 0",
        _BATCHES,
    ),
    Mutation(
        "truncated Poisson: one record more than the cap",
        "TruncatedPoisson._some",
        "return records[places < cap], np.minimum(counts, cap)",
        "return records[places < cap + 1], np.minimum(counts, cap + 1)",
        _BATCHES,
    ),
    Mutation(
        "random allocation: several uses accounted as one",
        "_blocks",
        "Round(total, min(made, total) if uses == 1 else total, ratio, count * uses)",
        "Round(total, min(made, total) if uses == 1 else total, ratio, count)",
        ("tests/accounting/test_mechanisms.py",),
    ),
    Mutation(
        "random allocation by moments: uses that are independent of each other",
        "_removal",
        "mu * mu * k * (k - 1.0) / 2 - factorials",
        "mu * mu * k / 2 - factorials",
        _ALLOCATION,
    ),
    Mutation(
        "draws with replacement by moments: uses in one step as if in many",
        "_drawn_uses",
        "order * (order - 1) / 2 * (k * ratio) ** 2",
        "order * (order - 1) / 2 * k * ratio**2",
        ("tests/accounting/bounds/renyi/test_counted_uses.py", "-k", "mean_over"),
    ),
    Mutation(
        "truncated Poisson by moments: a full batch moves once",
        "capped_moment",
        "poisson_renyi(order, rate, 2 * ratio, Relation.ADD_REMOVE)",
        "poisson_renyi(order, rate, ratio, Relation.ADD_REMOVE)",
        ("tests/accounting/bounds/renyi/test_counted_uses.py", "-k", "mean_over"),
    ),
    Mutation(
        "matrix mechanisms by moments: a replaced unit moves the shared part once",
        "allocated_renyi",
        "parts.append((GaussianDP(ways * shared), one.count))",
        "parts.append((GaussianDP(shared), one.count))",
        ("tests/accounting/test_matrices_by_chance.py", "-k", "largest_order"),
    ),
    Mutation(
        "matrix mechanisms: a unit that takes another's place moves once",
        "_matrix_mu",
        "spec.relation is Relation.REPLACE_ONE or run.participation.cap is not None",
        "spec.relation is Relation.REPLACE_ONE",
        ("tests/accounting/test_matrices_by_chance.py", "-k", "takes_the_place"),
    ),
    Mutation(
        "random allocation by moments: a round of half the steps",
        "_removal",
        "series + factorials - k * math.log(total)",
        "series + factorials - k * math.log(2 * total)",
        _ALLOCATION,
    ),
    Mutation(
        "random allocation by moments: a record more at one power less",
        "_addition",
        "g = s * w + logs",
        "g = (s - 0.5) * w + logs",
        _ALLOCATION,
    ),
    Mutation(
        "random allocation by moments: a replaced record counts as a removal",
        "round_renyi",
        "both = order / b * after + (1 - order / b) * added",
        "both = order / b * after",
        _ALLOCATION,
    ),
    Mutation(
        "pure batches: Poisson at twice the rate",
        "PureBatches._poisson",
        "threshold = int(Fraction(rate) * 2**64)",
        "threshold = int(Fraction(rate) * 2**65)",
        _PURE,
    ),
    Mutation(
        "chain: the chance of a record from the rows that are there",
        "run",
        "described_batches(algorithm.batch, spec.n, rows.count, algorithm.steps, generator, algorithm.chains)",
        "described_batches(algorithm.batch, rows.count, rows.count, algorithm.steps, generator, algorithm.chains)",
        engines("chance"),
    ),
    Mutation(
        "rounds: the chance of a record from the rows that are there",
        "Run.batches",
        "described_batches(algorithm.sampling, algorithm.records, self.rows, algorithm.rounds, generator)",
        "described_batches(algorithm.sampling, self.rows, self.rows, algorithm.rounds, generator)",
        engines("chance"),
    ),
    Mutation(
        "training: the chance of a record from the rows that are there",
        "TrainingRun.batches",
        "described_batches(run.sampling, run.records, self.rows, run.rounds, generator)",
        "described_batches(run.sampling, self.rows, self.rows, run.rounds, generator)",
        engines("chance"),
    ),
)
