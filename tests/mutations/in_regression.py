"""Mistakes in the regression engine: sums, sensitivities, families, plans and posteriors."""

from tests.mutations.mutation import Mutation

_TESTS = "tests/mechanisms/regression"
_PLAN = (f"{_TESTS}/test_regression_plan.py",)
_UNITS = (f"{_TESTS}/test_regression_units.py",)
_SURVIVAL = (f"{_TESTS}/test_regression_survival.py",)
_SPEC = ("tests/estimators/test_bounded_influence.py", "-k", "noise_in_a_run")
_FACTORS = '{"vector": 2.0, "nonnegative": math.sqrt(2.0), "matrix": math.sqrt(2.0), "centre": 1.0}'


def _bounds(words: str) -> tuple[str, ...]:
    return (f"{_TESTS}/test_regression_statistics.py", "-k", words)


def _posterior(words: str) -> tuple[str, ...]:
    return (f"{_TESTS}/test_regression_posterior.py", "-k", words)


def _replayed(words: str) -> tuple[str, ...]:
    return (f"{_TESTS}/test_regression_replay.py", "-k", words)


IN_REGRESSION = (
    Mutation(
        "regression: half the noise",
        "release_sums",
        "scales = statistic.scales(one.multiplier * statistic.sensitivity(plan.relation) * HAIR)",
        "scales = 0.5 * statistic.scales(one.multiplier * statistic.sensitivity(plan.relation) * HAIR)",
        _SPEC,
    ),
    Mutation(
        "regression: noise off the diagonal is that of counted once",
        "Statistic.scales",
        "found[rows != columns] /= math.sqrt(2.0)",
        "found[rows != columns] /= 4.0",
        _replayed("logistic and 900"),
    ),
    Mutation(
        "regression: replaced vectors pay once",
        "factor",
        _FACTORS,
        _FACTORS.replace('"vector": 2.0', '"vector": 1.0'),
        _bounds("sensitivity and linear"),
    ),
    Mutation(
        "regression: replaced matrices pay as if one were added",
        "factor",
        _FACTORS,
        _FACTORS.replace('"matrix": math.sqrt(2.0)', '"matrix": 1.0'),
        _bounds("sensitivity and linear"),
    ),
    Mutation(
        "regression: replaced histograms pay as if one were added",
        "factor",
        _FACTORS,
        _FACTORS.replace('"nonnegative": math.sqrt(2.0)', '"nonnegative": 1.0'),
        _bounds("sensitivity and linear"),
    ),
    Mutation(
        "regression: long contributions are not shortened",
        "shorten",
        "return values * (most / np.maximum(row_lengths(values), most))[:, None]",
        "return values",
        _bounds("sensitivity and linear"),
    ),
    Mutation(
        "regression: the centre's numbers are not shortened",
        "Centre.of",
        "centred[:, numbers] = shorten(centred[:, numbers], radius)",
        "pass",
        _bounds("sensitivity and linear"),
    ),
    Mutation(
        "regression: whitened rows are not shortened the second time",
        "Again.of",
        "short = np.minimum(given.lengths, INSIDE * self.cut) * 2.0**-DIGITS",
        "short = given.lengths * 2.0**-DIGITS",
        _bounds("products_of_whitened"),
    ),
    Mutation(
        "regression: two columns of a category may be 1",
        "Declaration.encoded",
        """\
flags[:, 1:] &= ~np.logical_or.accumulate(flags, axis=1)[:, :-1]
rows[:, places] = flags
""",
        "rows[:, places] = flags",
        _UNITS,
    ),
    Mutation(
        "regression: the rows of a person are not shortened together",
        "Round.pulls",
        "return found * given.rows.shares(row_lengths(found), INSIDE * self.gradient_bound)[:, None]",
        "return found",
        _bounds("event_in_every_bin"),
    ),
    Mutation(
        "regression: targets are not cut",
        "TargetMean.of",
        "np.clip((rows.y - self.middle) / self.cut, -1.0, 1.0)",
        "((rows.y - self.middle) / self.cut)",
        _bounds("sensitivity and linear"),
    ),
    Mutation(
        "cox: every time bin of a subject is a record of its own",
        "given_rows",
        "return Given(rows.X, rows.y, rows.exposure, rows.unit)",
        "return Given(rows.X, rows.y, rows.exposure, np.arange(len(rows.y)))",
        ("tests/estimators/test_cox.py", "-k", "no_subject"),
    ),
    Mutation(
        "cox: people are followed for ever",
        "Cox.followed",
        "return np.where(time <= left, events, 0.0).ravel(), np.minimum(time, left).ravel()",
        "return y, exposure",
        _SURVIVAL,
    ),
    Mutation(
        "regression: every row of a person counts in full",
        "UnitRows.__init__",
        "np.repeat(1.0 / counts, counts)",
        "np.repeat(np.ones(len(counts)), counts)",
        _UNITS,
    ),
    Mutation(
        "regression: the meat is of rows and not of people",
        "UnitRows.per_unit",
        "return np.add.reduceat(values, self.starts, axis=0)",
        "return values",
        _UNITS,
    ),
    Mutation(
        "regression: the budget is spent twice",
        "Plan.mechanisms",
        "self._multiplier(share / total)",
        "self._multiplier(2.0 * share / total)",
        _PLAN,
    ),
    Mutation(
        "regression: a statistic that was not planned is answered",
        "_check",
        "not same or (planned.bound is not None and statistic.bound != planned.bound)",
        "not same and False",
        (f"{_TESTS}/test_regression_plan.py", "-k", "planned"),
    ),
    Mutation(
        "regression: counts without their consistency correction",
        "Poisson.says",
        "psi = root * (np.clip(e, -at.cut, at.cut) + at.factor * cut)",
        "psi = root * np.clip(e, -at.cut, at.cut)",
        _posterior("poisson and truth"),
    ),
    Mutation(
        "regression: what is cut off residuals is not added back",
        "Linear.says",
        "cut + at.shift - at.tilt * (np.abs(cut) - at.size)",
        "cut",
        _posterior("skew"),
    ),
    Mutation(
        "regression: the posterior forgets the noise",
        "posterior_of",
        "covariance = known.sampling + known.extra + known.noise * np.eye(size)",
        "covariance = known.sampling + known.extra",
        _posterior("noise_is_in"),
    ),
    Mutation(
        "regression: the posterior forgets the sampling error",
        "posterior_of",
        "covariance = known.sampling + known.extra + known.noise * np.eye(size)",
        "covariance = known.extra + known.noise * np.eye(size)",
        _posterior("random_designs"),
    ),
    Mutation(
        "regression: factors of the prior are never drawn",
        "_gibbs",
        "factors = effects.drawn_factors(t, generator)",
        "factors = np.ones_like(factors)",
        _posterior("overrules"),
    ),
    Mutation(
        "regression: coefficients with hidden slopes are not marked",
        "posterior_of",
        "hidden |= unbounded",
        "hidden &= False",
        _posterior("noise_hides"),
    ),
    Mutation(
        "regression: draws do not bend where the target no longer moves",
        "_stretch",
        "encoded[:, i] = middle + np.sign(away) * np.maximum(np.abs(away), np.abs(found))",
        "pass",
        _posterior("reach_further"),
    ),
)
