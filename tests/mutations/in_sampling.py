"""Mistakes in batches, and in what is accounted for records that take part by chance."""

from tests.mutations.mutation import Mutation

_ALLOCATION = ("tests/accounting/renyi/test_random_allocation.py", "-k", "quadrature or patterns")
_BATCHES = ("tests/algorithm/test_batches.py",)
_PURE = ("tests/algorithm/test_pure_chain.py",)
IN_SAMPLING = (
    Mutation(
        "batches: a new order is the old one",
        "algorithm/chain/batches.py",
        "if earlier is not None and not self.redrawn:",
        "if earlier is not None:",
        _BATCHES,
    ),
    Mutation(
        "batches: Poisson at twice the rate",
        "algorithm/chain/batches.py",
        "-math.log1p(-sampling.rate)",
        "-2.0 * math.log1p(-sampling.rate)",
        _BATCHES,
    ),
    Mutation(
        "random allocation: one use too few",
        "algorithm/chain/batches.py",
        "uniform_subsets(self.sampling.generator, self._length, uses, rows).reshape(-1)",
        "uniform_subsets(self.sampling.generator, self._length, uses, rows).reshape(-1) * 0",
        _BATCHES,
    ),
    Mutation(
        "truncated Poisson: one record more than the cap",
        "algorithm/chain/batches.py",
        "return records[places < cap], np.minimum(counts, cap)",
        "return records[places < cap + 1], np.minimum(counts, cap + 1)",
        _BATCHES,
    ),
    Mutation(
        "random allocation: several uses accounted as one",
        "accounting/theorems/sampled.py",
        "else total, ratio, count * uses)",
        "else total, ratio, count)",
        ("tests/accounting/test_mechanisms.py",),
    ),
    Mutation(
        "random allocation by moments: uses that are independent of each other",
        "accounting/participation/allocation_renyi.py",
        "mu * mu * k * (k - 1.0) / 2 - factorials",
        "mu * mu * k / 2 - factorials",
        _ALLOCATION,
    ),
    Mutation(
        "draws with replacement by moments: uses in one step as if in many",
        "accounting/theorems/sampled.py",
        "(order - 1) / 2 * (k * ratio) ** 2",
        "(order - 1) / 2 * k * ratio**2",
        ("tests/accounting/renyi/test_counted_uses.py", "-k", "mean_over"),
    ),
    Mutation(
        "truncated Poisson by moments: a full batch moves once",
        "accounting/participation/hidden_steps.py",
        "poisson_renyi(order, rate, 2 * ratio, Relation.ADD_REMOVE)",
        "poisson_renyi(order, rate, ratio, Relation.ADD_REMOVE)",
        ("tests/accounting/renyi/test_counted_uses.py", "-k", "mean_over"),
    ),
    Mutation(
        "matrix mechanisms by moments: a replaced unit moves the shared part once",
        "accounting/participation/hidden_steps.py",
        "parts.append((GaussianDP(ways * shared), one.count))",
        "parts.append((GaussianDP(shared), one.count))",
        ("tests/accounting/test_matrices_by_chance.py", "-k", "largest_order"),
    ),
    Mutation(
        "matrix mechanisms: a unit that takes another's place moves once",
        "accounting/theorems/matrices.py",
        " or run.participation.cap is not None",
        "",
        ("tests/accounting/test_matrices_by_chance.py", "-k", "takes_the_place"),
    ),
    Mutation(
        "random allocation by moments: a round of half the steps",
        "accounting/participation/allocation_renyi.py",
        "- k * math.log(total)",
        "- k * math.log(2 * total)",
        _ALLOCATION,
    ),
    Mutation(
        "random allocation by moments: a record more at one power less",
        "accounting/participation/allocation_renyi.py",
        "g = s * w + logs",
        "g = (s - 0.5) * w + logs",
        _ALLOCATION,
    ),
    Mutation(
        "random allocation by moments: a replaced record counts as a removal",
        "accounting/participation/allocation_renyi.py",
        "both = order / b * after + (1 - order / b) * added",
        "both = order / b * after",
        _ALLOCATION,
    ),
    Mutation(
        "pure batches: Poisson at twice the rate",
        "algorithm/chain/pure_batches.py",
        "threshold = int(Fraction(rate) * 2**64)",
        "threshold = int(Fraction(rate) * 2**65)",
        _PURE,
    ),
)
