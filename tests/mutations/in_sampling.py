"""Mistakes in batches, and in what is accounted for records that take part by chance."""

from tests.mutations.mutation import mutations

IN_SAMPLING = mutations(
    """
@@ batches: a new order is the old one | Passes.drawn | mechanisms/chain/test_batches.py
- self.lists and not self._redrawn
+ self.lists
@@ batches: Poisson at twice the rate | Poisson.__init__ | mechanisms/chain/test_batches.py
- -math.log1p(-sampling.rate)
+ -2.0 * math.log1p(-sampling.rate)
@@ random allocation: one use too few | RandomAllocation.drawn | mechanisms/chain/test_batches.py
- uniform_subsets(generator, self.length, uses, rows).reshape(-1)
+ uniform_subsets(generator, self.length, uses, rows).reshape(-1) * 0
@@ truncated Poisson: one record more than the cap | TruncatedPoisson._some | mechanisms/chain/test_batches.py
- return records[places < cap], np.minimum(counts, cap)
+ return records[places < cap + 1], np.minimum(counts, cap + 1)
@@ random allocation: several uses accounted as one | _blocks | accounting/test_mechanisms.py
- hidden.Round(total, min(made, total) if uses == 1 else total, ratio, count * uses)
+ hidden.Round(total, min(made, total) if uses == 1 else total, ratio, count)
@@ random allocation by moments: uses that are independent of each other
@@ | _removal | accounting/bounds/renyi/test_random_allocation.py -k quadrature or patterns
- mu * mu * k * (k - 1.0) / 2 - factorials
+ mu * mu * k / 2 - factorials
@@ draws with replacement by moments: uses in one step as if in many
@@ | _drawn_uses | accounting/bounds/renyi/test_counted_uses.py -k mean_over
- order * (order - 1) / 2 * (k * ratio) ** 2
+ order * (order - 1) / 2 * k * ratio**2
@@ truncated Poisson by moments: a full batch moves once
@@ | capped_moment | accounting/bounds/renyi/test_counted_uses.py -k mean_over
- poisson_renyi(order, rate, 2 * ratio, Relation.ADD_REMOVE)
+ poisson_renyi(order, rate, ratio, Relation.ADD_REMOVE)
@@ matrix mechanisms by moments: a replaced unit moves the shared part once
@@ | allocated_renyi | accounting/test_matrices_by_chance.py -k largest_order
- parts.append((GaussianDP(ways * shared), one.count))
+ parts.append((GaussianDP(shared), one.count))
@@ matrix mechanisms: a unit that takes another's place moves once
@@ | _matrix_mu | accounting/test_matrices_by_chance.py -k takes_the_place
- spec.relation is Relation.REPLACE_ONE or run.participation.cap is not None
+ spec.relation is Relation.REPLACE_ONE
@@ random allocation by moments: a round of half the steps
@@ | _removal | accounting/bounds/renyi/test_random_allocation.py -k quadrature or patterns
- series + factorials - k * math.log(total)
+ series + factorials - k * math.log(2 * total)
@@ random allocation by moments: a record more at one power less
@@ | _addition | accounting/bounds/renyi/test_random_allocation.py -k quadrature or patterns
- g = s * w + logs
+ g = (s - 0.5) * w + logs
@@ random allocation by moments: a replaced record counts as a removal
@@ | round_renyi | accounting/bounds/renyi/test_random_allocation.py -k quadrature or patterns
- both = order / b * after + (1 - order / b) * added
+ both = order / b * after
@@ pure batches: Poisson at twice the rate | PureBatches._poisson | mechanisms/chain/test_functional.py
- threshold = int(Fraction(rate) * 2**64)
+ threshold = int(Fraction(rate) * 2**65)
@@ chain: the chance of a record from the rows that are there | Feed.__init__ | replay/test_engines.py -k chance
- described_batches(chain.batch, plan.spec.n, rows, chain.steps, drawn, chain.chains)
+ described_batches(chain.batch, rows, rows, chain.steps, drawn, chain.chains)
@@ rounds: the chance of a record from the rows that are there | Run.batches | replay/test_engines.py -k chance
- described_batches(algorithm.sampling, algorithm.records, self.rows, algorithm.rounds, generator)
+ described_batches(algorithm.sampling, self.rows, self.rows, algorithm.rounds, generator)
@@ training: the chance of a record from the rows that are there
@@ | TrainingRun.batches | replay/test_engines.py -k chance
- described_batches(run.sampling, run.records, self.rows, run.rounds, generator)
+ described_batches(run.sampling, self.rows, self.rows, run.rounds, generator)
"""
)
