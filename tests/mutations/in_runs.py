"""Mistakes in compiled rounds, in chains, in Propose-Test-Sample and in draws of a posterior."""

from tests.mutations.mutation import Mutation, engines, replay

_DRAWN = ("tests/mechanisms/test_posterior_sample.py",)
_PURE = ("tests/mechanisms/chain/test_functional.py",)
IN_RUNS = (
    Mutation(
        "rounds: one clip under replace-one",
        "",
        "{SumShape.VECTOR: 2.0, SumShape.RANK_ONE: up(2.0**0.5)}",
        "{SumShape.VECTOR: 1.0, SumShape.RANK_ONE: up(2.0**0.5)}",
        engines("natural-gradients"),
    ),
    Mutation(
        "rounds: noise halved",
        "Run.blocks",
        "self.part(self.sum_noise, first, length)",
        "self.part(self.sum_noise / 2, first, length)",
        engines("em-full"),
    ),
    Mutation(
        "rounds: any number of rows under replace-one",
        "check_rows_fit",
        """\
if spec.relation is Relation.REPLACE_ONE and rows != records:
    raise refuse("the number of rows", f"to be algorithm.records = {records} under replace-one", rows)
""",
        """\
if False:
    raise refuse("the number of rows", f"to be algorithm.records = {records} under replace-one", rows)
""",
        ("tests/mechanisms/regression",),
    ),
    Mutation(
        "rounds: passes where subsets are described",
        "Run.batches",
        "described_batches(algorithm.sampling, algorithm.records, self.rows, algorithm.rounds, generator)",
        "described_batches(replace(algorithm.sampling, scheme=Scheme.RESHUFFLED), algorithm.records, self.rows,"
        " algorithm.rounds, generator)",
        engines("scheme"),
    ),
    Mutation(
        "rounds: subsets where Poisson batches are described",
        "Run.batches",
        "described_batches(algorithm.sampling, algorithm.records, self.rows, algorithm.rounds, generator)",
        "described_batches(replace(algorithm.sampling, scheme=Scheme.WITHOUT_REPLACEMENT), algorithm.records,"
        " self.rows, algorithm.rounds, generator)",
        engines("scheme"),
    ),
    Mutation(
        "rounds: noise of a block used in every block",
        "Run._noise",
        "self.randomness.whole_gaussians(Purpose.NOISE, first, length, scales, size)",
        "self.randomness.whole_gaussians(Purpose.NOISE, 0, length, scales, size)",
        engines("noise_of_its_own"),
    ),
    Mutation(
        "EM: contributions not shortened",
        "Query.total.of_some",
        "clipped_total(parts, some.present, public.contribution)",
        "clipped_total(parts, some.present, 1e3 * public.contribution)",
        engines("em-full"),
    ),
    Mutation(
        "EM: counts limited by the actual number of records",
        "ExpectedStatistics.release",
        "np.clip(counts, self.options.least_count, run.algorithm.records)",
        "np.clip(counts, self.options.least_count, run.rows)",
        replay("mixture-em-add-remove"),
    ),
    Mutation(
        "EM: noise halved",
        "Run._noise",
        "lattice.in_spacings(self.sum_noise)",
        "lattice.in_spacings(0.5 * self.sum_noise)",
        engines("em-full"),
    ),
    Mutation(
        "variational inference: clip doubled in the run only",
        "EvidenceGradients.total.of_some",
        "clipped_total(parts, some.present, public.contribution, weights=squares)",
        "clipped_total(parts, some.present, 2.0 * public.contribution, weights=squares)",
        engines("variational-full"),
    ),
    Mutation(
        "variational inference: the actual number of records as divisor",
        "make_rounds",
        "(bound, algorithm.records, algorithm.batch_size)",
        "(bound, algorithm.records, run.rows)",
        engines("variational-full-add-remove"),
    ),
    Mutation(
        "variational inference: several draws not shortened",
        "Query.total.of_some",
        "clipped_total(parts, some.present, public.contribution)",
        "clipped_total(parts, some.present, 1e3 * public.contribution)",
        engines("two-draws"),
    ),
    Mutation(
        "variational inference: the length forgets the deviations",
        "FactorisedGaussian.squares",
        "return 1.0 + self._moved(phi, standard) ** 2",
        "return jnp.ones_like(standard)",
        engines("variational-full"),
    ),
    Mutation(
        "message passing: clip doubled in the run only",
        "make_rounds",
        "(bound, algorithm.records, algorithm.batch_size)",
        "(2.0 * bound, algorithm.records, algorithm.batch_size)",
        engines("messages-full"),
    ),
    Mutation(
        "chain: noise halved",
        "Feed._noise",
        "self._lattice.in_spacings(self._noise_scales)",
        "self._lattice.in_spacings(self._noise_scales / 2)",
        engines("chain-full"),
    ),
    Mutation(
        "chain: noise on the sum of a step of half the size",
        "Feed._scales",
        "_part(self._noise_scales, first, self._slots.block)[:, None]",
        "_part(self._noise_scales, first, self._slots.block)[:, None] / 2",
        engines("chain-full"),
    ),
    Mutation(
        "chain: clip doubled in the run only",
        "gradient_reach",
        'checked_bound("algorithm.clipping.bound", algorithm.clipping.bound)',
        "2.0 * algorithm.clipping.bound",
        engines("chain-full"),
    ),
    Mutation(
        "chain: the actual number of rows as divisor",
        "run",
        "constants = run_constants(spec, algorithm, model)",
        "constants = run_constants(spec, algorithm, model)._replace(divisor=jnp.asarray(rows.count, float))",
        engines("chain-full-add-remove"),
    ),
    Mutation(
        "chain: not projected",
        "projected",
        "return on_ball(theta, constants.radius) if program.projected else theta",
        "return theta",
        engines("projected_chain"),
    ),
    Mutation(
        "chain: residuals not cut",
        "_cut",
        "values = jnp.clip(part.values, -caps, caps)",
        "values = part.values",
        engines("chain-full"),
    ),
    Mutation(
        "clipping: vectors not shortened",
        "shortened",
        "bound / jnp.maximum(jnp.sqrt(squares), bound)",
        "1.0",
        engines("em-full"),
    ),
    Mutation(
        "chain: the released average without its noise",
        "_Averaged.release",
        "lambda: mean + scale * noise(randomness.generator(Purpose.AVERAGE), mean.shape)",
        "lambda: mean + 0.5 * scale * noise(randomness.generator(Purpose.AVERAGE), mean.shape)",
        ("tests/mechanisms/chain/test_release.py",),
    ),
    Mutation(
        "EM: sums grown by the actual number of records",
        "make_rounds",
        "(bound, algorithm.records, algorithm.batch_size)",
        "(bound, run.rows, algorithm.batch_size)",
        replay("mixture-em-add-remove"),
    ),
    Mutation(
        "message passing: the actual number of records in the cavity",
        "make_rounds",
        "(bound, algorithm.records, algorithm.batch_size)",
        "(bound, run.rows, algorithm.batch_size)",
        engines("messages-full-natural-add-remove"),
    ),
    Mutation(
        "chain: stable noise halved",
        "Feed._scales",
        "tau * mixing_scales(self._mixing, noise.alpha, shape)",
        "0.5 * tau * mixing_scales(self._mixing, noise.alpha, shape)",
        ("tests/noise/test_noise.py",),
    ),
    Mutation(
        "Propose-Test-Sample: the slope's noise halved",
        "clean",
        "slope_scale(run, cap, cleaned)",
        "slope_scale(run, cap, cleaned) / 2",
        ("tests/mechanisms/test_propose_test_sample.py",),
    ),
    Mutation(
        "Propose-Test-Sample: the first count without its margin",
        "clean",
        "count = _noisy_count(run, len(rows), generator)",
        "count = _noisy_count(run, len(rows), generator) + margin(run)",
        ("tests/mechanisms/test_propose_test_sample.py",),
    ),
    Mutation(
        "Propose-Test-Sample: the last count without its noise",
        "clean",
        "kept = _noisy_count(run, int(near.sum()), generator)",
        "kept = int(near.sum()) - margin(run)",
        ("tests/mechanisms/test_propose_test_sample.py",),
    ),
    Mutation(
        "pure chain: noise halved",
        "PureChain._noise",
        "scale = jnp.asarray(self._sum_noise)[step]",
        "scale = 0.5 * jnp.asarray(self._sum_noise)[step]",
        _PURE,
    ),
    Mutation(
        "pure chain: noise of the first step at every step",
        "PureChain._noise",
        "standard_gaussians(key_for(key, Purpose.NOISE, step), (self.spec.dim,))",
        "standard_gaussians(key_for(key, Purpose.NOISE), (self.spec.dim,))",
        _PURE,
    ),
    Mutation(
        "pure chain: gradients reach twice as far",
        "PureChain.step",
        "constants = run_constants(self.spec, self.algorithm, program.model)",
        """\
constants = run_constants(self.spec, self.algorithm, program.model)
constants = constants._replace(reach=2.0 * constants.reach)
""",
        _PURE,
    ),
    Mutation(
        "pure chain: the actual number of rows as divisor",
        "PureChain.step",
        "constants._replace(divisor=jnp.where(covered, constants.divisor, jnp.nan))",
        "constants._replace(divisor=jnp.where(covered, listed.counts[0].astype(float), jnp.nan))",
        _PURE,
    ),
    Mutation(
        "pure chain: not projected",
        "PureChain.step",
        "after = kernel.projected(program, constants, moved)[0]",
        "after = moved[0]",
        _PURE,
    ),
    Mutation(
        "pure chain: steps beyond the last",
        "PureChain.step",
        "covered = state.step < self.algorithm.steps",
        "covered = state.step >= 0",
        _PURE,
    ),
    Mutation(
        "pure chain: own batches keep what sampling gives",
        "PureChain.certified_spec",
        """\
if self.own_batches or self.optimiser is not None or not state.secure:
    return composition_only(spec)
""",
        """\
if self.optimiser is not None or not state.secure:
    return composition_only(spec)
""",
        _PURE,
    ),
    Mutation(
        "pure chain: a record of a batch counts as one of all",
        "composition_only",
        "growth = Fraction(spec.n, algorithm.divisor(spec.n))",
        "growth = Fraction(1)",
        _PURE,
    ),
    Mutation(
        "posterior draws: every proposal is accepted",
        "_accepted",
        "generator.random(count) < np.exp(-excess)",
        "generator.random(count) < 2.0",
        _DRAWN,
    ),
    Mutation(
        "posterior draws: the envelope is half as wide as it must be",
        "_gaussian_envelope.attempt",
        "generator.standard_normal((count, drawn.dim)) / math.sqrt(m)",
        "generator.standard_normal((count, drawn.dim)) / math.sqrt(4 * m)",
        _DRAWN,
    ),
    Mutation(
        "posterior draws: half the noise",
        "_noised",
        "generator.normal(0.0, noise.scale, len(draw))",
        "generator.normal(0.0, noise.scale / 2, len(draw))",
        _DRAWN,
    ),
)
