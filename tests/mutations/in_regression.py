"""Mistakes in the regression engine: sums, sensitivities, families, plans and posteriors."""

from tests.mutations.mutation import mutations

IN_REGRESSION = mutations(
    """
@@ regression: scattered rows are not shortened
@@ | Scatter.contributions | mechanisms/regression/test_regression_statistics.py -k shortened
- shorten(self.scaled(rows), self.cut)
+ self.scaled(rows)
@@ regression: half the noise | release_sums.answer | estimators/test_bounded_influence.py -k noise_in_a_run
- one.multiplier
+ 0.5 * one.multiplier
@@ regression: noise off the diagonal is that of counted once
@@ | Statistic.shares | mechanisms/regression/test_regression_replay.py -k logistic and 900
- 1.0 / triangle_weights(matrix_size(self.numbers))
+ 1.0 / triangle_weights(matrix_size(self.numbers)) ** 4
@@ regression: rounds whose rows count differently are added as they are
@@ | Learner.moved_here | mechanisms/regression/test_regression_posterior.py -k sure_class
- slope / np.trace(one.rows.slopes(here.point))
+ 1.0
@@ regression: public rows of a sure class count in full
@@ | ModelRows.counted | mechanisms/regression/test_regression_posterior.py -k sure_class
- 0.5 / special.expit(np.abs(self._scores(t)[:, 0]))
+ 1.0
@@ regression: replaced vectors pay once
@@ | factor | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- {"vector": 2.0, "nonnegative": acute, "matrix": acute, "cube": 1.0, "centre": 1.0}
+ {"vector": 1.0, "nonnegative": acute, "matrix": acute, "cube": 1.0, "centre": 1.0}
@@ regression: replaced matrices pay as if one were added
@@ | factor | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- {"vector": 2.0, "nonnegative": acute, "matrix": acute, "cube": 1.0, "centre": 1.0}
+ {"vector": 2.0, "nonnegative": acute, "matrix": 1.0, "cube": 1.0, "centre": 1.0}
@@ regression: replaced histograms pay as if one were added
@@ | factor | mechanisms/regression/test_regression_statistics.py -k sensitivity and linear
- {"vector": 2.0, "nonnegative": acute, "matrix": acute, "cube": 1.0, "centre": 1.0}
+ {"vector": 2.0, "nonnegative": 1.0, "matrix": acute, "cube": 1.0, "centre": 1.0}
@@ regression: two levels of a category are said to be 1 apart
@@ | Centre.declared | mechanisms/regression/test_regression_statistics.py -k centre_moves
- squares += 1.0 if len(places) == 1 else 2.0
+ squares += 1.0
@@ sums: units beyond their bound are added | Contributions.total | noise/test_integer_lengths.py
- self._pass(~refused)[0] if refused.any() else total
+ total
@@ sums: rows are looked at and not units | Contributions._beyond | noise/test_integer_lengths.py
- sizes, most = np.bincount(self.units, sizes, len(counts)), int(counts.max(initial=1))
+ sizes, most = sizes[np.unique(self.units, return_index=True)[1]], int(counts.max(initial=1))
@@ sums: what floats leave open is within | Contributions._beyond | noise/test_integer_lengths.py
- sum(self._exactly(row, which) for row in rows) <= limit * 2**_ROOT_BITS
+ True
@@ sums: the sizes of a category's levels are not added up | _one_of | noise/test_integer_lengths.py
- alike & ((own > 0).sum(axis=1) <= 1)
+ alike
@@ sums: negative entries count as others | nonnegative.length | noise/test_integer_lengths.py
- (found >= 0).all(axis=1)
+ True
@@ sums: the length of one factor alone | outers | noise/test_integer_lengths.py
- _squares(z) * _squares(v)
+ _squares(v)
@@ cox: every time bin of a subject is a record of its own | person_bins | estimators/test_cox.py -k no_subject
- np.repeat(np.arange(len(rows)), bins)
+ np.arange(len(rows) * bins)
@@ cox: people are followed for ever | Cox.followed | mechanisms/regression/test_regression_survival.py
- return np.where(time <= left, events, 0.0).ravel(), np.minimum(time, left).ravel()
+ return y, exposure
@@ regression: the meat is of rows and not of people
@@ | UnitRows.per_unit | mechanisms/regression/test_regression_units.py
- return np.add.reduceat(values, self.starts, axis=0)
+ return values
@@ regression: the budget is spent twice | Plan.mechanisms | mechanisms/regression/test_regression_plan.py
- math.sqrt(one.share / total)
+ math.sqrt(2.0 * one.share / total)
@@ regression: a statistic that was not planned is answered
@@ | _check | mechanisms/regression/test_regression_plan.py -k planned
- not same or (planned.bound is not None and statistic.bound != planned.bound)
+ not same and False
@@ regression: counts without their consistency correction
@@ | Poisson.says | mechanisms/regression/test_regression_posterior.py -k takes_off_counts
- psi = root * (np.clip(e, -at.cut, at.cut) + at.factor * cut)
+ psi = root * np.clip(e, -at.cut, at.cut)
@@ regression: what is cut off residuals is not added back
@@ | Linear.says | mechanisms/regression/test_regression_posterior.py -k skew
- cut + at.shift - at.tilt * (np.abs(cut) - at.size)
+ cut
@@ regression: the posterior forgets the noise
@@ | posterior | mechanisms/regression/test_regression_posterior.py -k noise_is_in
- covariance = known.sampling + known.extra + last.noise * np.eye(size)
+ covariance = known.sampling + known.extra
@@ regression: the posterior forgets the sampling error
@@ | posterior | mechanisms/regression/test_regression_posterior.py -k random_designs
- covariance = known.sampling + known.extra + last.noise * np.eye(size)
+ covariance = known.extra + last.noise * np.eye(size)
@@ regression: factors of the prior are never drawn
@@ | _gibbs | mechanisms/regression/test_regression_posterior.py -k overrules
- factors = effects.drawn_factors(t, generator)
+ factors = np.ones_like(factors)
@@ regression: effects have the declared scale, whatever coefficients say
@@ | Effects.chances | mechanisms/regression/test_regression_posterior.py -k drawn_in_together
- return found / found.sum(axis=-1, keepdims=True)
+ return np.eye(len(SCALES))[np.zeros(found.shape[:-1], int)]
@@ regression: coefficients with hidden slopes are not marked
@@ | posterior | mechanisms/regression/test_regression_posterior.py -k noise_hides
- hidden |= unbounded
+ hidden &= False
@@ regression: noise of the slopes alone hides a coefficient
@@ | posterior | mechanisms/regression/test_regression_posterior.py -k noise_hides
- seen.std(axis=0) > _HIDDEN * np.einsum("ij,jk,ik->i", along, last.slopes, along)
+ seen.std(axis=0) > 9.0
@@ regression: slopes lie as near to public rows as where whitening is known
@@ | FirstAnswers.leave_open | mechanisms/regression/test_regression_posterior.py -k near_to_its
- self.far_slopes = on, off
+ self.far_slopes = self.tuned.near
@@ regression: gradients whose residuals were cut elsewhere count as the others
@@ | Learner.moved_here | mechanisms/regression/test_regression_posterior.py -k near_to_its
- variances + bent + between**2 * size
+ variances + bent
@@ regression: slopes do not learn from differences between gradients | Secants.condition
@@ | mechanisms/regression/test_secants.py
- return slopes + flat * (turned + np.swapaxes(turned, -1, -2)) + np.diag(np.diag(self.open)) * turned
+ return slopes
@@ regression: the last gradient's noise is not in the differences | Secants.condition
@@ | mechanisms/regression/test_secants.py
- np.diag(self.variances[:-1]) + self.variances[-1]
+ np.diag(self.variances[:-1])
@@ regression: what earlier slopes say is as open as if nothing were known | Learner.carried
@@ | mechanisms/regression/test_regression_posterior.py -k near_to_its
- math.hypot(_DRIFT * near, math.sqrt(left) / max(unit, 1e-300))
+ 0.01
@@ regression: the scale of errors is known but for sampling
@@ | Learner.residual_scale | mechanisms/regression/test_regression_posterior.py -k near_to_its
- math.sqrt(1.0 / self.n + self.errors.scale_error**2)
+ math.sqrt(1.0 / self.n)
@@ regression: draws do not bend where the target no longer moves
@@ | _stretch | mechanisms/regression/test_regression_posterior.py -k reach_further
- encoded[:, i] = middle + np.sign(away) * np.maximum(np.abs(away), np.abs(found))
+ pass
"""
)
