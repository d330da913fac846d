"""Mistakes in the regression engine: sums, sensitivities, families, plans and posteriors."""

from tests.mutations.mutation import mutations

IN_REGRESSION = mutations(
    """
@@ regression: half the noise | release_sums | estimators/test_bounded_influence.py -k noise_in_a_run
- scales = statistic.scales(one.multiplier * statistic.sensitivity(plan.relation) * HAIR)
+ scales = 0.5 * statistic.scales(one.multiplier * statistic.sensitivity(plan.relation) * HAIR)
@@ regression: noise off the diagonal is that of counted once
@@ | Statistic.scales | mechanisms/regression/test_regression_replay.py -k logistic and 900
- found[rows != columns] /= math.sqrt(2.0)
+ found[rows != columns] /= 4.0
@@ regression: replaced vectors pay once
@@ | factor | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- {"vector": 2.0, "nonnegative": math.sqrt(2.0), "matrix": math.sqrt(2.0), "centre": 1.0}
+ {"vector": 1.0, "nonnegative": math.sqrt(2.0), "matrix": math.sqrt(2.0), "centre": 1.0}
@@ regression: replaced matrices pay as if one were added
@@ | factor | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- {"vector": 2.0, "nonnegative": math.sqrt(2.0), "matrix": math.sqrt(2.0), "centre": 1.0}
+ {"vector": 2.0, "nonnegative": math.sqrt(2.0), "matrix": 1.0, "centre": 1.0}
@@ regression: replaced histograms pay as if one were added
@@ | factor | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- {"vector": 2.0, "nonnegative": math.sqrt(2.0), "matrix": math.sqrt(2.0), "centre": 1.0}
+ {"vector": 2.0, "nonnegative": 1.0, "matrix": math.sqrt(2.0), "centre": 1.0}
@@ regression: long contributions are not shortened
@@ | shorten | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- return values * (most / np.maximum(row_lengths(values), most))[:, None]
+ return values
@@ regression: the centre's numbers are not shortened
@@ | Centre.of | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- centred[:, numbers] = shorten(centred[:, numbers], radius)
+ pass
@@ regression: whitened rows are not shortened the second time
@@ | Again.of | mechanisms/regression/test_regression_statistics.py -k products_of_whitened
- short = np.minimum(given.lengths, INSIDE * self.cut) * 2.0**-DIGITS
+ short = given.lengths * 2.0**-DIGITS
@@ regression: two columns of a category may be 1 | Declaration.encoded | mechanisms/regression/test_regression_units.py
- flags[:, 1:] &= ~np.logical_or.accumulate(flags, axis=1)[:, :-1]
  rows[:, places] = flags
@@ regression: the rows of a person are not shortened together
@@ | Round.pulls | mechanisms/regression/test_regression_statistics.py -k event_in_every_bin
- return found * given.rows.shares(row_lengths(found), INSIDE * self.gradient_bound)[:, None]
+ return found
@@ regression: targets are not cut
@@ | TargetMean.of | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- np.clip((rows.y - self.middle) / self.cut, -1.0, 1.0)
+ ((rows.y - self.middle) / self.cut)
@@ cox: every time bin of a subject is a record of its own | given_rows | estimators/test_cox.py -k no_subject
- return Given(rows.X, rows.y, rows.exposure, rows.unit)
+ return Given(rows.X, rows.y, rows.exposure, np.arange(len(rows.y)))
@@ cox: people are followed for ever | Cox.followed | mechanisms/regression/test_regression_survival.py
- return np.where(time <= left, events, 0.0).ravel(), np.minimum(time, left).ravel()
+ return y, exposure
@@ regression: every row of a person counts in full | UnitRows.__init__ | mechanisms/regression/test_regression_units.py
- np.repeat(1.0 / counts, counts)
+ np.repeat(np.ones(len(counts)), counts)
@@ regression: the meat is of rows and not of people
@@ | UnitRows.per_unit | mechanisms/regression/test_regression_units.py
- return np.add.reduceat(values, self.starts, axis=0)
+ return values
@@ regression: the budget is spent twice | Plan.mechanisms | mechanisms/regression/test_regression_plan.py
- self._multiplier(share / total)
+ self._multiplier(2.0 * share / total)
@@ regression: a statistic that was not planned is answered
@@ | _check | mechanisms/regression/test_regression_plan.py -k planned
- not same or (planned.bound is not None and statistic.bound != planned.bound)
+ not same and False
@@ regression: counts without their consistency correction
@@ | Poisson.says | mechanisms/regression/test_regression_posterior.py -k poisson and truth
- psi = root * (np.clip(e, -at.cut, at.cut) + at.factor * cut)
+ psi = root * np.clip(e, -at.cut, at.cut)
@@ regression: what is cut off residuals is not added back
@@ | Linear.says | mechanisms/regression/test_regression_posterior.py -k skew
- cut + at.shift - at.tilt * (np.abs(cut) - at.size)
+ cut
@@ regression: the posterior forgets the noise
@@ | posterior_of | mechanisms/regression/test_regression_posterior.py -k noise_is_in
- covariance = known.sampling + known.extra + known.noise * np.eye(size)
+ covariance = known.sampling + known.extra
@@ regression: the posterior forgets the sampling error
@@ | posterior_of | mechanisms/regression/test_regression_posterior.py -k random_designs
- covariance = known.sampling + known.extra + known.noise * np.eye(size)
+ covariance = known.extra + known.noise * np.eye(size)
@@ regression: factors of the prior are never drawn
@@ | _gibbs | mechanisms/regression/test_regression_posterior.py -k overrules
- factors = effects.drawn_factors(t, generator)
+ factors = np.ones_like(factors)
@@ regression: coefficients with hidden slopes are not marked
@@ | posterior_of | mechanisms/regression/test_regression_posterior.py -k noise_hides
- hidden |= unbounded
+ hidden &= False
@@ regression: draws do not bend where the target no longer moves
@@ | _stretch | mechanisms/regression/test_regression_posterior.py -k reach_further
- encoded[:, i] = middle + np.sign(away) * np.maximum(np.abs(away), np.abs(found))
+ pass
"""
)
