"""Mistakes in estimators, in noised sums and in exact noise."""

from tests.mutations.mutation import SECURE, Mutation, replay

_SUMS = ("tests/noise/test_record_sums.py", "tests/mechanisms/statistics")
_GAUSSIANS = ("tests/noise/test_gaussians.py",)
_NOISED = ("tests/noise/test_noised.py",)
_LAPLACE = ("tests/noise/test_whole_laplace.py",)
IN_ESTIMATORS = (
    # Estimators.
    Mutation(
        "dp-vi: mean square over the actual number of records",
        "noised_residual_variance",
        "mean_square = 0.5 + (noised + rounds.scale(0)) / problem.records",
        "mean_square = 0.5 + (noised + rounds.scale(0)) / len(residuals)",
        replay("regressor-dp-vi-add-remove"),
    ),
    Mutation(
        "dp-vi: the squares' noise is that of add-remove",
        "noised_residual_variance",
        "noised = float(rounds.noised(0, total, -DIGITS)[0])",
        "noised = float(rounds.noised(0, total, -DIGITS, rounds.scale(0) / problem.clips)[0])",
        replay("regressor-dp-vi-replace-one"),
    ),
    Mutation(
        "dp-sep: the check is not in the spec",
        "StochasticExpectationPropagation.plan",
        "in_parts(problem, steps, check_spec(problem))",
        "in_parts(problem, steps)",
        replay("regressor-dp-sep-replace-one"),
    ),
    Mutation(
        "dp-vi: the check is not in the spec",
        "VariationalInference.plan",
        "in_parts(problem, steps, check_spec(problem))",
        "in_parts(problem, steps)",
        replay("regressor-dp-vi-replace-one"),
    ),
    Mutation(
        "natural: contributions twice as long",
        "",
        "_INSIDE = 1.0 - 2.0**-14",
        "_INSIDE = 2.0",
        ("tests/mechanisms/networks/test_natural_gradients.py",),
    ),
    Mutation(
        "natural: numbers are not shortened",
        "contributions",
        "residuals * _INSIDE / np.maximum(lengths, point.clip)",
        "residuals * _INSIDE / point.clip",
        replay("regressor-natural-replace-one"),
    ),
    Mutation(
        "natural: a row is weighed by its own label",
        "contributions",
        "longest = np.maximum(sizes[0], sizes[1]) * row_lengths(turned)",
        "longest = np.where(targets > 0.5, sizes[1], sizes[0]) * row_lengths(turned)",
        ("tests/mechanisms/networks/test_natural_gradients.py",),
    ),
    Mutation(
        "natural: the actual number of records as divisor",
        "NaturalGradients.__call__",
        "return self._rounds.noised(k, sums, UNIT_EXPONENT) / self.algorithm.records",
        "return self._rounds.noised(k, sums, UNIT_EXPONENT) / len(self._rows)",
        replay("regressor-natural-add-remove"),
    ),
    Mutation(
        "natural: half the noise on gradients",
        "NaturalGradients.__call__",
        "return self._rounds.noised(k, sums, UNIT_EXPONENT) / self.algorithm.records",
        "return self._rounds.noised(k, sums, UNIT_EXPONENT, self._rounds.scale(k) / 2) / self.algorithm.records",
        ("tests/mechanisms/networks/test_natural_gradients.py",),
    ),
    Mutation(
        "natural: counts noised as if a replacement moved them by 1",
        "counts_spec",
        "noise = ConstantSchedule(up(REPLACED * multiplier(mu)))",
        "noise = ConstantSchedule(up(multiplier(mu)))",
        ("tests/estimators/test_natural_method.py",),
    ),
    Mutation(
        "natural: rows whitened without noise",
        "_Run._whitened",
        "step = whitening(unit * gram, unit * release.noise, columns.seen)",
        "step = whitening(rows.T @ rows / len(rows), unit * release.noise, columns.seen)",
        replay("classifier-natural-2"),
    ),
    Mutation(
        "natural: targets standardised by their own mean",
        "_Run.outcome",
        "codes = (self.y - linear.mean) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)",
        "codes = (self.y - self.y.mean()) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)",
        replay("regressor-natural-replace-one"),
    ),
    Mutation(
        "natural: the last counts are not in the spec",
        "NaturalNetwork.plan",
        "in_parts(problem, *specs)",
        "in_parts(problem, *specs[:-1])",
        ("tests/estimators/test_natural_method.py",),
    ),
    Mutation(
        "constant: targets not cut to their bound",
        "_regression",
        "scaled = np.clip(y / bound, -1.0, 1.0)",
        "scaled = 2.0 * y / bound",
        replay("linear-constant"),
    ),
    Mutation(
        "constant: the length of a target and its square taken as 1",
        "_regression",
        "noise = np.sqrt(2.0) * rounds.scale(0)",
        "noise = rounds.scale(0)",
        replay("linear-constant"),
    ),
    Mutation(
        "constant: counts over the actual number of records",
        "_classification",
        "_shrunk(count / problem.records, noise / problem.records, 1.0 / classes)",
        "_shrunk(count / len(y), noise / problem.records, 1.0 / classes)",
        replay("constant-3-add-remove"),
    ),
    Mutation(
        "arrays: the actual number of records is declared",
        "_of_arrays",
        "schema = given.schema(width, records, labels, X.names if isinstance(X, Bare) else None)",
        "schema = given.schema(width, rows, labels, X.names if isinstance(X, Bare) else None)",
        replay("constant-add-remove"),
    ),
    Mutation(
        "one seeded source for all parts of a fit",
        "Sources.fresh",
        "self._given += 1",
        "self._given = 1",
        SECURE,
    ),
    Mutation(
        "problem: one clip under replace-one",
        "FitProblem.clips",
        "return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0",
        "return 1.0",
        replay("constant-2-replace-one"),
    ),
    Mutation(
        "auto: the engine is taken where it would not inform",
        "beats_constant",
        "return plan.method.informs(plan.problem)",
        "return True",
        ("tests/estimators/test_choose.py",),
    ),
    Mutation(
        "auto: a method with too many coefficients to predict well is taken",
        "_preference",
        "return plan.method.too_wide(plan.problem), plan.predicted",
        "return False, plan.predicted",
        ("tests/estimators/test_choose.py",),
    ),
    Mutation(
        "fit: a certificate above the budget goes on",
        "charged_run",
        "explanation.epsilon > epsilon",
        "explanation.epsilon > 10.0 * epsilon",
        ("tests/estimators/test_private_order.py",),
    ),
    Mutation(
        "charge: the run comes before the debit",
        "charged_run",
        """\
access = _debited(explanation, ledger, checkpoint())
contents = run(access)
""",
        """\
contents = run(RowAccess(ledger, None))
access = _debited(explanation, ledger, checkpoint())
""",
        ("tests/estimators/test_charged_run.py",),
    ),
    Mutation(
        "charge: public numbers are compared after the debit",
        "charged_run",
        """\
check()
access = _debited(explanation, ledger, checkpoint())
""",
        """\
access = _debited(explanation, ledger, checkpoint())
check()
""",
        ("tests/estimators/test_charged_run.py",),
    ),
    Mutation(
        "charge: a checkpoint is deleted before its release is stored",
        "charged_run",
        """\
_store_and_name(access, release, store)
access.checkpoint.done()
""",
        """\
access.checkpoint.done()
_store_and_name(access, release, store)
""",
        ("tests/estimators/test_charged_run.py",),
    ),
    Mutation(
        "methods: a hundredth less noise than the budget asks for",
        "multiplier",
        "return up(1.0 / mu * (1.0 + 1e-9))",
        "return 0.99 / mu",
        replay("ridge-2-"),
    ),
    Mutation(
        "encoding: rows not cut to their cap",
        "encode_features",
        "clipped = 0 if cap is None else clip_rows(features[:, int(schema.intercept) :], cap)",
        "clipped = 0",
        ("tests/data/test_row_norm.py",),
    ),
    # Noised sums.
    Mutation(
        "statistics: noise halved",
        "SecondMomentSums.__call__",
        "scales = rounds.sum_noise[0] / weights * (1.0 + HAIR)",
        "scales = 0.5 * rounds.sum_noise[0] / weights * (1.0 + HAIR)",
        replay("natural"),
    ),
    Mutation(
        "statistics: the sensitivity of add-remove under replace-one",
        "statistics_spec",
        """\
NoisedSums(
        query="second moments of rows and targets",
        records=records,
        rounds=1,
        sampling=Batch(Scheme.FULL),
        contribution=length,
        replacement=moved if replaced else None,
        noise_multiplier=ConstantSchedule(up(noise_multiplier * up(moved / length)) if replaced else noise_multiplier),
    )
""",
        """\
NoisedSums(
        query="second moments of rows and targets",
        records=records,
        rounds=1,
        sampling=Batch(Scheme.FULL),
        contribution=length,
        replacement=length if replaced else None,
        noise_multiplier=ConstantSchedule(up(noise_multiplier * up(moved / length)) if replaced else noise_multiplier),
    )
""",
        replay("natural"),
    ),
    Mutation(
        "statistics: one noise for sums of unlike weight",
        "SecondMomentSums.__call__",
        "scales = rounds.sum_noise[0] / weights * (1.0 + HAIR)",
        "scales = rounds.sum_noise[0] * np.ones(len(weights))",
        replay("natural"),
    ),
    Mutation(
        "statistics: targets not cut",
        "StatisticsStack.sums",
        "np.clip(y[part], -1.0, 1.0)",
        "y[part]",
        _SUMS,
    ),
    Mutation(
        "statistics: the cross products' weight forgotten in the sensitivity",
        "StatisticsStack.sensitivity",
        "0.5 * (2.0 + self.cross**2) ** 2 + self.square**2",
        "2.0 + self.square**2",
        replay("natural"),
    ),
    Mutation(
        "record sums: rows not brought into the ball",
        "inside_ball",
        "digits(rows * (INSIDE / np.maximum(row_lengths(rows), INSIDE))[:, None])",
        "digits(rows)",
        _SUMS,
    ),
    Mutation(
        "record sums: digits rounded to the nearest",
        "digits",
        "np.trunc(values * math.ldexp(1.0, DIGITS - exponent))",
        "np.rint(values * math.ldexp(1.0, DIGITS - exponent))",
        _SUMS,
    ),
    Mutation(
        "record sums: contributions not shortened",
        "shortened",
        "digits(values * (most / np.maximum(row_lengths(values), most))[:, None], exponent)",
        "digits(values, exponent)",
        replay("ridge-2-"),
    ),
    Mutation(
        "full gradients: noise halved",
        "ExactRounds.noised",
        "self.scale(k) if scale is None else scale",
        "0.5 * self.scale(k) if scale is None else scale",
        replay("ridge-2-"),
    ),
    Mutation(
        "full gradients: mean over the actual number of records",
        "NoisedGradients.__call__",
        "self._rounds.noised(k, self._sums.sums(theta), self._sums.exponent) / self.algorithm.records",
        "self._rounds.noised(k, self._sums.sums(theta), self._sums.exponent) / len(self._sums._y)",
        replay("ridge-2-add-remove"),
    ),
    # Exact noise.
    Mutation(
        "exact noise: sums get half the noise",
        "noised_sums",
        "lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)))",
        "lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent - 1)))",
        _NOISED,
    ),
    Mutation(
        "exact noise: numbers get half the noise",
        "noised_numbers",
        "_released(grid, cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)))",
        "_released(grid, cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent - 1)))",
        _NOISED,
    ),
    Mutation(
        "exact noise: no negative draws",
        "ExactGaussians.__init__",
        "self._negative = generator.integers(0, 2, size, dtype=np.int64) == 1",
        "self._negative = np.zeros(size, bool)",
        _GAUSSIANS,
    ),
    Mutation(
        "exact noise: whole parts of a geometric law",
        "_Trial.__init__",
        "self._repeat(self.whole * (self.whole - 1), lambda places: self._half_exponential(len(places)))",
        "pass",
        _GAUSSIANS,
    ),
    Mutation(
        "exact noise: draws used twice",
        "ExactGaussians.rounded",
        """\
self._use(places)
values = self._approximate(places)
""",
        "values = self._approximate(places)",
        _GAUSSIANS,
    ),
    Mutation(
        "exact Laplace noise halved",
        "whole_laplace",
        "top, bottom = exact.numerator, exact.denominator",
        "top, bottom = exact.numerator, 2 * exact.denominator",
        _LAPLACE,
    ),
    Mutation(
        "exact Laplace noise with twice the zeros",
        "whole_laplace",
        """\
if not (negative and size == 0):
    return -size if negative else size
""",
        """\
if True:
    return -size if negative else size
""",
        _LAPLACE,
    ),
    Mutation(
        "natural: rows are whitened by a plain product",
        "_Run._rows",
        "own_products(self.X, transform[:-1]) + transform[-1]",
        "self.X @ transform[:-1] + transform[-1]",
        ("tests/estimators/test_natural_method.py", "-k", "whitened_rows"),
    ),
    Mutation(
        "networks: examples are read before the debit",
        "fit_network",
        "sources = Sources(random_state)",
        """\
check_examples(examples)
sources = Sources(random_state)
""",
        ("tests/own_models/test_fit_network.py", "-k", "cover"),
    ),
    Mutation(
        "fit: a caution tells how many records there are",
        "fit.run",
        "(*plan.cautions, *outcome.cautions, *cautions)",
        "(*plan.cautions, *outcome.cautions, *cautions, f'{given.number()} records were read.')",
        ("tests/replay/test_whole_releases.py", "-k", "fit"),
    ),
)
