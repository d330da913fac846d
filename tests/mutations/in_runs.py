"""Mistakes in compiled rounds, in chains, in Propose-Test-Sample and in draws of a posterior."""

from tests.mutations.mutation import mutations

IN_RUNS = mutations(
    """
@@ rounds: one clip under replace-one |  | replay/test_engines.py -k natural-gradients
- {SumShape.VECTOR: 2.0, SumShape.RANK_ONE: up(2.0**0.5)}
+ {SumShape.VECTOR: 1.0, SumShape.RANK_ONE: up(2.0**0.5)}
@@ rounds: noise halved | Run.blocks | replay/test_engines.py -k em-full
- self.part(self.sum_noise, first, length)
+ self.part(self.sum_noise / 2, first, length)
@@ rounds: any number of rows under replace-one | check_rows_fit | mechanisms/regression
- spec.relation is Relation.REPLACE_ONE and rows != records
+ False
@@ rounds: passes where subsets are described | Run.batches | replay/test_engines.py -k scheme
- algorithm.sampling
+ replace(algorithm.sampling, scheme=Scheme.RESHUFFLED)
@@ rounds: subsets where Poisson batches are described | Run.batches | replay/test_engines.py -k scheme
- algorithm.sampling
+ replace(algorithm.sampling, scheme=Scheme.WITHOUT_REPLACEMENT)
@@ rounds: noise of a block used in every block | Run._noise | replay/test_engines.py -k noise_of_its_own
- step_noise(self.randomness, lattice, self.sum_noise, first, (length, size), self.dtype)
+ step_noise(self.randomness, lattice, self.sum_noise, 0, (length, size), self.dtype)
@@ EM: contributions not shortened | Query.total.of_some | replay/test_engines.py -k em-full
- clipped_total(parts, some.present, public.contribution)
+ clipped_total(parts, some.present, 1e3 * public.contribution)
@@ EM: counts limited by the actual number of records
@@ | ExpectedStatistics.release | replay/test_estimators.py -k mixture-em-add-remove
- np.clip(counts, self.options.least_count, run.algorithm.records)
+ np.clip(counts, self.options.least_count, run.rows)
@@ EM: noise halved | Run._noise | replay/test_engines.py -k noise_of_its_own
- step_noise(self.randomness, lattice, self.sum_noise, first, (length, size), self.dtype)
+ step_noise(self.randomness, lattice, 0.5 * self.sum_noise, first, (length, size), self.dtype)
@@ variational inference: clip doubled in the run only
@@ | EvidenceGradients.total.of_some | replay/test_engines.py -k variational-full
- clipped_total(parts, some.present, public.contribution, weights=squares)
+ clipped_total(parts, some.present, 2.0 * public.contribution, weights=squares)
@@ variational inference: the actual number of records as divisor
@@ | make_rounds | replay/test_engines.py -k variational-full-add-remove
- (bound, algorithm.records, algorithm.batch_size)
+ (bound, algorithm.records, run.rows)
@@ variational inference: the length forgets the deviations
@@ | FactorisedGaussian.squares | replay/test_engines.py -k variational-full
- return 1.0 + self._moved(phi, standard) ** 2
+ return jnp.ones_like(standard)
@@ message passing: clip doubled in the run only | make_rounds | replay/test_engines.py -k messages-full
- (bound, algorithm.records, algorithm.batch_size)
+ (2.0 * bound, algorithm.records, algorithm.batch_size)
@@ chain: noise halved | Feed._noise | mechanisms/chain/test_run.py -k step_by_step
- step_noise(self._randomness, self.lattice, self._scales, first, (length, *self._shape), self._dtype)
+ step_noise(self._randomness, self.lattice, self._scales / 2, first, (length, *self._shape), self._dtype)
@@ chain: noise on the sum of a step of half the size | Feed._noise_scales | replay/test_engines.py -k chain-full
- part_of(self._scales, first, length)[:, None]
+ part_of(self._scales, first, length)[:, None] / 2
@@ chain: clip doubled in the run only | ChainPlan.reach | replay/test_engines.py -k chain-full
- checked_bound("algorithm.clipping.bound", self.chain.clipping.bound)
+ 2.0 * self.chain.clipping.bound
@@ chain: the actual number of rows as divisor | run | replay/test_engines.py -k chain-full-add-remove
- plan.constants()
+ plan.constants()._replace(divisor=jnp.asarray(len(X), float))
@@ chain: not projected | projected | replay/test_engines.py -k projected_chain
- return on_ball(theta, constants.radius) if program.projected else theta
+ return theta
@@ chain: residuals not cut | _cut | replay/test_engines.py -k chain-full
- values = jnp.clip(part.values, -caps, caps)
+ values = part.values
@@ clipping: vectors not shortened | shortened | replay/test_engines.py -k em-full
- bound / jnp.maximum(jnp.sqrt(squares), bound)
+ 1.0
@@ chain: the released average with half its noise | noised_average | mechanisms/chain/test_release.py
- float(np.ldexp(scale, -exponent))
+ float(np.ldexp(scale, -exponent)) / 2
@@ EM: sums grown by the actual number of records | make_rounds | replay/test_estimators.py -k mixture-em-add-remove
- (bound, algorithm.records, algorithm.batch_size)
+ (bound, run.rows, algorithm.batch_size)
@@ message passing: the actual number of records in the cavity
@@ | make_rounds | replay/test_engines.py -k messages-full-natural-add-remove
- (bound, algorithm.records, algorithm.batch_size)
+ (bound, run.rows, algorithm.batch_size)
@@ chain: stable noise halved | Feed._noise_scales | noise/test_noise.py
- stable_scales(self._mixing, (length, self._chain.chains), noise.alpha)
+ 0.5 * stable_scales(self._mixing, (length, self._chain.chains), noise.alpha)
@@ Propose-Test-Sample: the slope's noise halved | clean | mechanisms/test_propose_test_sample.py
- slope_scale(run, cap, cleaned)
+ slope_scale(run, cap, cleaned) / 2
@@ Propose-Test-Sample: the first count without its margin | clean | mechanisms/test_propose_test_sample.py
- count = _noisy_count(run, len(rows), noise)
+ count = _noisy_count(run, len(rows), noise) + margin(run)
@@ Propose-Test-Sample: the last count without its noise | clean | mechanisms/test_propose_test_sample.py
- kept = _noisy_count(run, int(near.sum()), noise)
+ kept = int(near.sum()) - margin(run)
@@ pure chain: noise halved | PureChain._inputs | mechanisms/chain/test_functional.py
- scale = jnp.asarray(self._plan.sum_noise)[step]
+ scale = 0.5 * jnp.asarray(self._plan.sum_noise)[step]
@@ pure chain: noise of the first step at every step | PureChain._inputs | mechanisms/chain/test_functional.py
- keyed_noise(key, step, self.spec.dim)
+ keyed_noise(key, 0, self.spec.dim)
@@ pure chain: gradients reach twice as far | PureChain.step | mechanisms/chain/test_functional.py
- plan.constants()
+ plan.constants()._replace(reach=2.0 * plan.constants().reach)
@@ pure chain: the actual number of rows as divisor | PureChain.step | mechanisms/chain/test_functional.py
- constants._replace(divisor=jnp.where(covered, constants.divisor, jnp.nan))
+ constants._replace(divisor=jnp.where(covered, listed.counts[0].astype(float), jnp.nan))
@@ pure chain: not projected | projected | mechanisms/chain/test_functional.py
- return on_ball(theta, constants.radius) if program.projected else theta
+ return theta if theta.shape[0] == 1 else on_ball(theta, constants.radius)
@@ pure chain: steps beyond the last | PureChain.step | mechanisms/chain/test_functional.py
- covered = state.step < self.algorithm.steps
+ covered = state.step >= 0
@@ pure chain: own batches keep what sampling gives | PureChain.certified_spec | mechanisms/chain/test_functional.py
- self.own_batches or self.optimiser is not None or not state.secure
+ self.optimiser is not None or not state.secure
@@ pure chain: a record of a batch counts as one of all | composition_only | mechanisms/chain/test_functional.py
- growth = Fraction(spec.n, algorithm.divisor(spec.n))
+ growth = Fraction(1)
@@ posterior draws: every proposal is accepted | _accepted | mechanisms/test_posterior_sample.py
- generator.random(count) < np.exp(-excess)
+ generator.random(count) < 2.0
@@ posterior draws: the envelope is half as wide as it must be
@@ | _gaussian_envelope.attempt | mechanisms/test_posterior_sample.py
- generator.standard_normal((count, len(place))) / math.sqrt(m)
+ generator.standard_normal((count, len(place))) / math.sqrt(4 * m)
@@ posterior draws: half the noise | _noised | mechanisms/test_posterior_sample.py
- drawn.floating(draw, Law(noise.kind), noise.scale)
+ drawn.floating(draw, Law(noise.kind), noise.scale / 2)
"""
)
