"""Mistakes in estimators, in noised sums and in exact noise."""

from tests.mutations.mutation import mutations

IN_ESTIMATORS = mutations(
    """
@@ dp-vi: mean square over the actual number of records
@@ | noised_residual_variance | replay/test_estimators.py -k regressor-dp-vi-add-remove
- mean_square = 0.5 + (noised + rounds.scale(0)) / problem.records
+ mean_square = 0.5 + (noised + rounds.scale(0)) / len(residuals)
@@ dp-vi: the squares' noise is that of add-remove
@@ | noised_residual_variance | replay/test_estimators.py -k regressor-dp-vi-replace-one
- noised = float(rounds.noised(0, whole, -DIGITS)[0])
+ noised = float(rounds.noised(0, whole, -DIGITS, shares=1.0 / problem.clips)[0])
@@ dp-sep: the check is not in the spec
@@ | StochasticExpectationPropagation.plan | replay/test_estimators.py -k regressor-dp-sep-replace-one
- in_parts(problem, steps, check_spec(problem))
+ in_parts(problem, steps)
@@ dp-vi: the check is not in the spec
@@ | VariationalInference.plan | replay/test_estimators.py -k regressor-dp-vi-replace-one
- in_parts(problem, steps, check_spec(problem))
+ in_parts(problem, steps)
@@ natural: the actual number of records as divisor
@@ | NaturalGradients.__call__ | replay/test_estimators.py -k regressor-natural-add-remove
- return self.noised(k, asked, UNIT_EXPONENT) / self.algorithm.records
+ return self.noised(k, asked, UNIT_EXPONENT) / len(self._rows)
@@ natural: half the noise on gradients | NaturalGradients.__call__ | mechanisms/networks/test_natural_gradients.py
- return self.noised(k, asked, UNIT_EXPONENT) / self.algorithm.records
+ return self.noised(k, asked, UNIT_EXPONENT, shares=0.5) / self.algorithm.records
@@ natural: counts noised as if a replacement moved them by 1 | counts_spec | estimators/test_natural_method.py
- noise = ConstantSchedule(up(REPLACED * multiplier(mu)))
+ noise = ConstantSchedule(up(multiplier(mu)))
@@ natural: rows whitened without noise | _Run._whitened | replay/test_estimators.py -k classifier-natural-2
- step = gradients.whitening(unit * gram, unit * release.noise, columns.seen)
+ step = gradients.whitening(rows.T @ rows / len(rows), unit * release.noise, columns.seen)
@@ natural: targets standardised by their own mean
@@ | _Run.outcome | replay/test_estimators.py -k regressor-natural-replace-one
- codes = (self.y - linear.mean) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)
+ codes = (self.y - self.y.mean()) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)
@@ natural: the last counts are not in the spec | NaturalNetwork.plan | estimators/test_natural_method.py
- base.in_parts(problem, *specs)
+ base.in_parts(problem, *specs[:-1])
@@ constant: counts over the actual number of records
@@ | _classification | replay/test_estimators.py -k constant-3-add-remove
- _shrunk(count / problem.records, noise / problem.records, 1.0 / classes)
+ _shrunk(count / len(y), noise / problem.records, 1.0 / classes)
@@ arrays: the actual number of records is declared | _of_arrays | replay/test_estimators.py -k constant-add-remove
- schema = given.schema(width, records, labels, X.names if isinstance(X, Bare) else None)
+ schema = given.schema(width, rows, labels, X.names if isinstance(X, Bare) else None)
@@ one seeded source for all parts of a fit | Sources.fresh | estimators/test_secure_mode.py
- self._given += 1
+ self._given = 1
@@ problem: one clip under replace-one | FitProblem.clips | replay/test_estimators.py -k constant-2-replace-one
- return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0
+ return 1.0
@@ auto: the engine is taken where it would not inform | beats_constant | estimators/test_choose.py
- return plan.method.informs(plan.problem)
+ return True
@@ auto: a method with too many coefficients to predict well is taken | _preference | estimators/test_choose.py
- return plan.method.too_wide(plan.problem), plan.predicted
+ return False, plan.predicted
@@ fit: a certificate above the budget goes on | charged_run | estimators/test_private_order.py
- explanation.epsilon > epsilon
+ explanation.epsilon > 10.0 * epsilon
@@ charge: the run comes before the debit | charged_run | estimators/test_charged_run.py
+ contents = run(RowAccess(book, None))
  access = _debited(explanation, book, checkpoint())
- contents = run(access)
@@ charge: public numbers are compared after the debit | charged_run | estimators/test_charged_run.py
+ access = _debited(explanation, book, checkpoint())
  check()
- access = _debited(explanation, book, checkpoint())
@@ charge: a checkpoint is deleted before its release is stored | charged_run | estimators/test_charged_run.py
+ access.checkpoint.done()
  _store_and_name(access, release, store)
- access.checkpoint.done()
@@ methods: a hundredth less noise than the budget asks for | multiplier | replay/test_estimators.py -k ridge-2-
- return up(1.0 / mu * (1.0 + 1e-9))
+ return 0.99 / mu
@@ encoding: rows not cut to their cap | encode_features | data/test_row_norm.py
- clip_rows(features[:, int(schema.intercept) :], schema.clip_length)
+ pass
@@ statistics: noise halved | run_statistics | replay/test_estimators.py -k natural
- 1.0 / weights
+ 0.5 / weights
@@ statistics: the sensitivity of add-remove under replace-one | statistics_spec | replay/test_estimators.py -k natural
- moved if replaced else None
+ length if replaced else None
@@ statistics: one noise for sums of unlike weight | run_statistics | replay/test_estimators.py -k natural
- 1.0 / weights
+ 1.0
@@ statistics: targets not cut | StatisticsStack.products.pairs | noise/test_record_sums.py mechanisms/statistics
- np.clip(y[part], -1.0, 1.0)
+ y[part]
@@ statistics: the cross products' weight forgotten in the sensitivity
@@ | StatisticsStack.sensitivity | replay/test_estimators.py -k natural
- 0.5 * (2.0 + self.cross**2) ** 2 + self.square**2
+ 2.0 + self.square**2
@@ record sums: rows not brought into the ball | StatisticsStack.products.pairs | mechanisms/statistics
- shortened(X[part], 1.0, 0)
+ exact.digits(X[part])
@@ record sums: digits rounded to the nearest | digits | noise/test_record_sums.py mechanisms/statistics
- np.trunc(values * math.ldexp(1.0, DIGITS - exponent))
+ np.rint(values * math.ldexp(1.0, DIGITS - exponent))
@@ full gradients: noise halved | ExactRounds.noised | replay/test_estimators.py -k ridge-2-
- float(self._multipliers[k])
+ 0.5 * float(self._multipliers[k])
@@ full gradients: mean over the actual number of records
@@ | NoisedGradients.__call__ | replay/test_estimators.py -k ridge-2-add-remove
- self.noised(k, self._sums.products(theta), self._sums.exponent) / self.algorithm.records
+ self.noised(k, self._sums.products(theta), self._sums.exponent) / len(self._sums._lengths)
@@ exact noise: sums get half the noise | SumNoise.noised | noise/test_noised.py
- np.ldexp(spread, -grid)
+ np.ldexp(spread, -grid - 1)
@@ exact noise: the port forgets the bound | CheckedSum.scales | noise/test_noised.py
- self.multiplier * self.moved * HAIR
+ self.multiplier * HAIR
@@ exact noise: a call is said to cost less | CheckedSum.mu | noise/test_noised.py
- self.times / self.multiplier
+ 0.5 * self.times / self.multiplier
@@ exact noise: no negative draws | ExactGaussians.__init__ | noise/test_gaussians.py
- self._negative = generator.integers(0, 2, size, dtype=np.int64) == 1
+ self._negative = np.zeros(size, bool)
@@ exact noise: whole parts of a geometric law | _Trial.__init__ | noise/test_gaussians.py
- self._repeat(self.whole * (self.whole - 1), self._half_exponential)
+ pass
@@ exact noise: draws used twice | ExactGaussians.rounded | noise/test_gaussians.py
- self._used[places] = True
  fractions = np.zeros(len(places))
@@ exact Laplace noise halved | whole_laplace | noise/test_gaussians.py -k laplace
- top, bottom = exact.numerator, exact.denominator
+ top, bottom = exact.numerator, 2 * exact.denominator
@@ exact Laplace noise with twice the zeros | whole_laplace | noise/test_gaussians.py -k laplace
- not (negative and size == 0)
+ True
@@ natural: rows are whitened by a plain product | _Run._rows | estimators/test_natural_method.py -k whitened_rows
- own_products(self.X, transform[:-1]) + transform[-1]
+ self.X @ transform[:-1] + transform[-1]
@@ networks: examples are read before the debit | fit_network | own_models/test_fit_network.py -k cover
+ check_examples(examples)
  sources = Sources(random_state)
@@ fit: a caution tells how many records there are | fit.run | replay/test_whole_releases.py -k fit
- (*plan.cautions, *outcome.cautions, *cautions)
+ (*plan.cautions, *outcome.cautions, *cautions, f'{len(given.read(given.declaration)[0])} records were read.')
"""
)
