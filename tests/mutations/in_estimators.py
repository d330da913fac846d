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
- noised = float(rounds.noised(0, total, -DIGITS)[0])
+ noised = float(rounds.noised(0, total, -DIGITS, rounds.scale(0) / problem.clips)[0])
@@ dp-sep: the check is not in the spec
@@ | StochasticExpectationPropagation.plan | replay/test_estimators.py -k regressor-dp-sep-replace-one
- in_parts(problem, steps, check_spec(problem))
+ in_parts(problem, steps)
@@ dp-vi: the check is not in the spec
@@ | VariationalInference.plan | replay/test_estimators.py -k regressor-dp-vi-replace-one
- in_parts(problem, steps, check_spec(problem))
+ in_parts(problem, steps)
@@ natural: contributions twice as long |  | mechanisms/networks/test_natural_gradients.py
- _INSIDE = 1.0 - 2.0**-14
+ _INSIDE = 2.0
@@ natural: numbers are not shortened | contributions | replay/test_estimators.py -k regressor-natural-replace-one
- residuals * _INSIDE / np.maximum(lengths, point.clip)
+ residuals * _INSIDE / point.clip
@@ natural: a row is weighed by its own label | contributions | mechanisms/networks/test_natural_gradients.py
- longest = np.maximum(sizes[0], sizes[1]) * row_lengths(turned)
+ longest = np.where(targets > 0.5, sizes[1], sizes[0]) * row_lengths(turned)
@@ natural: the actual number of records as divisor
@@ | NaturalGradients.__call__ | replay/test_estimators.py -k regressor-natural-add-remove
- return self._rounds.noised(k, sums, UNIT_EXPONENT) / self.algorithm.records
+ return self._rounds.noised(k, sums, UNIT_EXPONENT) / len(self._rows)
@@ natural: half the noise on gradients | NaturalGradients.__call__ | mechanisms/networks/test_natural_gradients.py
- return self._rounds.noised(k, sums, UNIT_EXPONENT) / self.algorithm.records
+ return self._rounds.noised(k, sums, UNIT_EXPONENT, self._rounds.scale(k) / 2) / self.algorithm.records
@@ natural: counts noised as if a replacement moved them by 1 | counts_spec | estimators/test_natural_method.py
- noise = ConstantSchedule(up(REPLACED * multiplier(mu)))
+ noise = ConstantSchedule(up(multiplier(mu)))
@@ natural: rows whitened without noise | _Run._whitened | replay/test_estimators.py -k classifier-natural-2
- step = whitening(unit * gram, unit * release.noise, columns.seen)
+ step = whitening(rows.T @ rows / len(rows), unit * release.noise, columns.seen)
@@ natural: targets standardised by their own mean
@@ | _Run.outcome | replay/test_estimators.py -k regressor-natural-replace-one
- codes = (self.y - linear.mean) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)
+ codes = (self.y - self.y.mean()) / linear.spread if numbers else class_codes(self.y, problem.classes or 2)
@@ natural: the last counts are not in the spec | NaturalNetwork.plan | estimators/test_natural_method.py
- in_parts(problem, *specs)
+ in_parts(problem, *specs[:-1])
@@ constant: targets not cut to their bound | _regression | replay/test_estimators.py -k linear-constant
- scaled = np.clip(y / bound, -1.0, 1.0)
+ scaled = 2.0 * y / bound
@@ constant: the length of a target and its square taken as 1
@@ | _regression | replay/test_estimators.py -k linear-constant
- noise = np.sqrt(2.0) * rounds.scale(0)
+ noise = rounds.scale(0)
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
+ contents = run(RowAccess(ledger, None))
  access = _debited(explanation, ledger, checkpoint())
- contents = run(access)
@@ charge: public numbers are compared after the debit | charged_run | estimators/test_charged_run.py
+ access = _debited(explanation, ledger, checkpoint())
  check()
- access = _debited(explanation, ledger, checkpoint())
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
@@ statistics: noise halved | SecondMomentSums.__call__ | replay/test_estimators.py -k natural
- scales = rounds.sum_noise[0] / weights * (1.0 + HAIR)
+ scales = 0.5 * rounds.sum_noise[0] / weights * (1.0 + HAIR)
@@ statistics: the sensitivity of add-remove under replace-one | statistics_spec | replay/test_estimators.py -k natural
- moved if replaced else None
+ length if replaced else None
@@ statistics: one noise for sums of unlike weight | SecondMomentSums.__call__ | replay/test_estimators.py -k natural
- scales = rounds.sum_noise[0] / weights * (1.0 + HAIR)
+ scales = rounds.sum_noise[0] * np.ones(len(weights))
@@ statistics: targets not cut | StatisticsStack.sums | noise/test_record_sums.py mechanisms/statistics
- np.clip(y[part], -1.0, 1.0)
+ y[part]
@@ statistics: the cross products' weight forgotten in the sensitivity
@@ | StatisticsStack.sensitivity | replay/test_estimators.py -k natural
- 0.5 * (2.0 + self.cross**2) ** 2 + self.square**2
+ 2.0 + self.square**2
@@ record sums: rows not brought into the ball | inside_ball | noise/test_record_sums.py mechanisms/statistics
- digits(rows * (INSIDE / np.maximum(row_lengths(rows), INSIDE))[:, None])
+ digits(rows)
@@ record sums: digits rounded to the nearest | digits | noise/test_record_sums.py mechanisms/statistics
- np.trunc(values * math.ldexp(1.0, DIGITS - exponent))
+ np.rint(values * math.ldexp(1.0, DIGITS - exponent))
@@ record sums: contributions not shortened | shortened | replay/test_estimators.py -k ridge-2-
- digits(values * (most / np.maximum(row_lengths(values), most))[:, None], exponent)
+ digits(values, exponent)
@@ full gradients: noise halved | ExactRounds.noised | replay/test_estimators.py -k ridge-2-
- self.scale(k) if scale is None else scale
+ 0.5 * self.scale(k) if scale is None else scale
@@ full gradients: mean over the actual number of records
@@ | NoisedGradients.__call__ | replay/test_estimators.py -k ridge-2-add-remove
- self._rounds.noised(k, self._sums.sums(theta), self._sums.exponent) / self.algorithm.records
+ self._rounds.noised(k, self._sums.sums(theta), self._sums.exponent) / len(self._sums._y)
@@ exact noise: sums get half the noise | noised_sums | noise/test_noised.py
- lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)))
+ lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent - 1)))
@@ exact noise: numbers get half the noise | noised_numbers | noise/test_noised.py
- _released(grid, cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)))
+ _released(grid, cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent - 1)))
@@ exact noise: no negative draws | ExactGaussians.__init__ | noise/test_gaussians.py
- self._negative = generator.integers(0, 2, size, dtype=np.int64) == 1
+ self._negative = np.zeros(size, bool)
@@ exact noise: whole parts of a geometric law | _Trial.__init__ | noise/test_gaussians.py
- self._repeat(self.whole * (self.whole - 1), lambda places: self._half_exponential(len(places)))
+ pass
@@ exact noise: draws used twice | ExactGaussians.rounded | noise/test_gaussians.py
- self._use(places)
  values = self._approximate(places)
@@ exact Laplace noise halved | whole_laplace | noise/test_whole_laplace.py
- top, bottom = exact.numerator, exact.denominator
+ top, bottom = exact.numerator, 2 * exact.denominator
@@ exact Laplace noise with twice the zeros | whole_laplace | noise/test_whole_laplace.py
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
+ (*plan.cautions, *outcome.cautions, *cautions, f'{given.number()} records were read.')
"""
)
