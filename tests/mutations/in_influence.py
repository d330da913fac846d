"""Mistakes in bounded influence: sums, sensitivities, families, plans and posteriors."""

from tests.mutations.mutation import Mutation

_FOLDER = "algorithm/influence"
_TESTS = "tests/algorithm/influence"
_SUMS = (f"{_TESTS}/test_influence_sums.py",)
_PLAN = (f"{_TESTS}/test_influence_plan.py",)
_KINDS = (f"{_TESTS}/test_influence_families.py",)
_POSTERIOR = (f"{_TESTS}/test_influence_posterior.py",)
_LIKENESS = (f"{_TESTS}/test_influence_likeness.py",)
_TAILS = (f"{_TESTS}/test_influence_tails.py",)


def _replayed(words: str) -> tuple[str, ...]:
    return (f"{_TESTS}/test_influence_replay.py", "-k", words)


IN_INFLUENCE = (
    Mutation(
        "influence: half the noise",
        "Followed.noise",
        "return one.multiplier * self.plan.sensitivity(one, bound) * HAIR",
        "return 0.5 * one.multiplier * self.plan.sensitivity(one, bound) * HAIR",
        _replayed("linear"),
    ),
    Mutation(
        "influence: replaced vectors pay once",
        "factor",
        '{"vector": 2.0, "psd": math.sqrt(2.0), "histogram": math.sqrt(2.0), "centre": 1.0}',
        '{"vector": 1.0, "psd": math.sqrt(2.0), "histogram": math.sqrt(2.0), "centre": 1.0}',
        _SUMS,
    ),
    Mutation(
        "influence: replaced matrices pay as if one were added",
        "factor",
        '{"vector": 2.0, "psd": math.sqrt(2.0), "histogram": math.sqrt(2.0), "centre": 1.0}',
        '{"vector": 2.0, "psd": 1.0, "histogram": math.sqrt(2.0), "centre": 1.0}',
        _replayed("linear-replace-one"),
    ),
    Mutation(
        "influence: replaced histograms pay as if one were added",
        "factor",
        '{"vector": 2.0, "psd": math.sqrt(2.0), "histogram": math.sqrt(2.0), "centre": 1.0}',
        '{"vector": 2.0, "psd": math.sqrt(2.0), "histogram": 1.0, "centre": 1.0}',
        _replayed("linear-replace-one"),
    ),
    Mutation(
        "influence: rows without weights",
        "Contributions.__init__",
        "self.weights = np.minimum(1.0, (tau / self.lengths) ** 2)",
        "self.weights = np.ones(len(self.lengths))",
        _SUMS,
    ),
    Mutation(
        "influence: the rows of a person are not shortened together",
        "Contributions._pulls",
        "yield part, found * shares[part, None]",
        "yield part, found",
        _replayed("cox"),
    ),
    Mutation(
        "influence: the curvature's rows are longer than their weights allow",
        "Contributions.curvature",
        "stretch = np.minimum(stretch, INSIDE * self.tau) * np.sqrt(self.rows.mass(part)) * shares[part]",
        "stretch = 2.0 * stretch * np.sqrt(self.rows.mass(part)) * shares[part]",
        _SUMS + _replayed("linear"),
    ),
    Mutation(
        "cox: every time bin of a subject is a record of its own",
        "given_rows",
        "return Given(rows.X, rows.y, rows.exposure, rows.unit)",
        "return Given(rows.X, rows.y, rows.exposure, np.arange(len(rows.y)))",
        ("tests/estimators/test_cox.py", "-k", "no_subject"),
    ),
    Mutation(
        "cox: a bound that subjects exceed",
        "Cox.bound",
        "return (1.0 + MOST_EXPECTED) / declaration.most_records",
        "return 0.25 * (1.0 + MOST_EXPECTED) / declaration.most_records",
        (f"{_TESTS}/test_influence_survival.py", "tests/estimators/test_cox.py", "-k", "bound or no_subject"),
    ),
    Mutation(
        "influence: people are followed for ever",
        "Cox.followed",
        "return np.where(time <= left, events, 0.0).ravel(), np.minimum(time, left).ravel()",
        "return y, exposure",
        (f"{_TESTS}/test_influence_survival.py",),
    ),
    Mutation(
        "influence: the centre's numbers are not shortened",
        "UnitRows.centre",
        "rows[:, numbers] *= (INSIDE * radius / lengths)[:, None] if len(numbers) else 1.0",
        "rows[:, numbers] *= 1.0",
        _SUMS,
    ),
    Mutation(
        "influence: two columns of a category may be 1",
        "Declaration.encoded",
        """\
flags[:, 1:] &= ~np.logical_or.accumulate(flags, axis=1)[:, :-1]
rows[:, places] = flags
""",
        "rows[:, places] = flags",
        _SUMS + _PLAN,
    ),
    Mutation(
        "influence: the scatter's rows are not shortened",
        "UnitRows.scatter",
        """\
rows *= (INSIDE * rho / np.maximum(row_lengths(rows), INSIDE * rho))[:, None]
rows = _times(rows, np.sqrt(self.mass(part)))
""",
        "rows = _times(rows, np.sqrt(self.mass(part)))",
        _replayed("logistic"),
    ),
    Mutation(
        "influence: every row of a person counts in full",
        "UnitRows.__init__",
        "np.repeat(1.0 / counts, counts)",
        "np.repeat(np.ones(len(counts)), counts)",
        _replayed("True"),
    ),
    Mutation(
        "influence: the meat is of rows and not of people",
        "UnitRows.per_unit",
        "return values if self._starts is None else np.add.reduceat(values, self._starts, axis=0)",
        "return values",
        _SUMS,
    ),
    Mutation(
        "influence: histograms of likeness pay for one",
        "Plan.mechanisms",
        'found.append(("likeness", "histogram", size * LIKENESS_BINS, shares.likeness, math.sqrt(size)))',
        'found.append(("likeness", "histogram", size * LIKENESS_BINS, shares.likeness, 1.0))',
        _replayed("linear-add-remove-True"),
    ),
    Mutation(
        "influence: records and not units count in likeness",
        "Contributions.likeness",
        "masses = self.rows.per_unit(_whole(self.rows.mass(rows) * np.ones(rows.stop)))",
        "masses = self.rows.per_unit(_whole(np.ones(rows.stop)))",
        _replayed("linear-add-remove-True"),
    ),
    Mutation(
        "influence: likeness is not paid for",
        "",
        '("centre", "scales", "scatter", "location", "curvature", "meat", "likeness")',
        '("centre", "scales", "scatter", "location", "curvature", "meat")',
        _LIKENESS,
    ),
    Mutation(
        "influence: intervals do not hear how alike records are",
        "Evidence._sampling",
        "model = self.likeness.of_units(model)",
        "pass",
        _LIKENESS,
    ),
    Mutation(
        "influence: answers over the actual number of rows",
        "InMemory.__init__",
        "self._whitened: list[Contributions | None] = [None] * len(self._parts)",
        """\
self._whitened: list[Contributions | None] = [None] * len(self._parts)
vars(plan)['records'] = sum(rows.units for rows in self._parts)
""",
        _replayed("add-remove"),
    ),
    Mutation(
        "influence: the budget is spent twice",
        "Plan.multiplier",
        "return up(1.0 / (self.mu * math.sqrt(share)) * (1.0 + 1e-12))",
        "return up(0.7 / (self.mu * math.sqrt(share)) * (1.0 + 1e-12))",
        _PLAN,
    ),
    Mutation(
        "influence: a later round has the bound of the first",
        "Logistic.bound",
        "return 0.5 if at.first else float(special.expit(at.cap))",
        "return 0.5",
        _KINDS,
    ),
    Mutation(
        "influence: residuals of numbers are cut higher than certified",
        "Linear.psi",
        "most = at.clip * at.scale",
        "most = 1.2 * at.clip * at.scale",
        _KINDS,
    ),
    Mutation(
        "influence: slopes of numbers are certified too small",
        "Linear",
        """\
def bound(self, declaration: Declaration, at: At) -> float:
    return at.clip * at.scale

def slope_bound(self, declaration: Declaration, at: At) -> float:
    return 1.0
""",
        """\
def bound(self, declaration: Declaration, at: At) -> float:
    return at.clip * at.scale

def slope_bound(self, declaration: Declaration, at: At) -> float:
    return 0.8
""",
        _KINDS + _replayed("linear"),
    ),
    Mutation(
        "influence: slopes of two classes are certified too small",
        "Logistic.slope_bound",
        "return 0.25",
        "return 0.2",
        _KINDS + _replayed("logistic"),
    ),
    Mutation(
        "influence: scores of two classes are not capped",
        "Logistic.psi",
        "return y[:, None] - special.expit(np.clip(score, -at.cap, at.cap))",
        "return y[:, None] - special.expit(score)",
        _KINDS,
    ),
    Mutation(
        "influence: the bound of several classes without the other classes",
        "Multinomial.bound",
        "return math.sqrt(1.0 + top)",
        "return 1.0",
        _KINDS,
    ),
    Mutation(
        "influence: the first bound of several classes is that of two",
        "Multinomial.bound",
        "return math.sqrt(1.0 - 1.0 / classes)",
        "return 0.5",
        _KINDS,
    ),
    Mutation(
        "influence: slopes of several classes are certified too small",
        "Multinomial.slope_bound",
        "return 0.5 * (1.0 + cut_share(declaration))",
        "return 0.25 * (1.0 + cut_share(declaration))",
        _KINDS + _replayed("multinomial"),
    ),
    Mutation(
        "influence: the bound of counts without the correction's share",
        "Poisson.bound",
        "return math.sqrt(self.full(at)) * (at.clip + 0.25 / at.clip)",
        "return 0.7 * math.sqrt(self.full(at)) * at.clip",
        _KINDS,
    ),
    Mutation(
        "influence: slopes of counts are certified too small",
        "Poisson",
        """\
def slope_bound(self, declaration: Declaration, at: At) -> float:
    return self.full(at)
""",
        """\
def slope_bound(self, declaration: Declaration, at: At) -> float:
    return 0.3 * self.full(at)
""",
        _KINDS + _replayed("poisson"),
    ),
    Mutation(
        "influence: counts without their consistency correction",
        "Poisson.psi",
        "return self._factor(mean, at) * (clipped - _on_grid(mean, at, rise=False))",
        "return self._factor(mean, at) * clipped",
        _KINDS,
    ),
    Mutation(
        "influence: residuals of counts are not clipped",
        "Poisson.psi",
        "clipped = np.clip(residual, -at.clip, at.clip)",
        "clipped = residual",
        _KINDS,
    ),
    Mutation(
        "influence: the posterior forgets the noise",
        "Evidence._privacy",
        "found[j, places, j, places] += one.noise**2 + 0.3 * np.trace(bent) / size",
        "found[j, places, j, places] += 1e-4 * one.noise**2 + 0.3 * np.trace(bent) / size",
        _POSTERIOR,
    ),
    Mutation(
        "influence: the posterior forgets the sampling error",
        "Evidence._local",
        "self._sampling(variances[-1], slopes[-1], slopes[-1] + opened.mean) / self.units",
        "self._sampling(variances[-1], slopes[-1], slopes[-1] + opened.mean) / self.units / 25.0",
        _POSTERIOR,
    ),
    Mutation(
        "influence: tails fade by the square",
        "",
        "(8.0, 0.838, 1.0), 0.25, 0.6, 4",
        "(8.0, 0.838, 1.0), 0.25, 0.6, 2",
        _TAILS,
    ),
    Mutation(
        "influence: drawn slopes without their tails",
        "",
        "_DRAWN_TAILS = (5.0, 0.935, 0.5)",
        "_DRAWN_TAILS = (5.0, 0.935, 0.25)",
        _TAILS,
    ),
    Mutation(
        "influence: slopes of numbers as open as those of 0/1 columns",
        "",
        "_DEGREES, _FACTOR, _OF_NUMBERS, _ENOUGH = 5.0, 0.8, 0.65, 0.25",
        "_DEGREES, _FACTOR, _OF_NUMBERS, _ENOUGH = 5.0, 0.8, 0.8, 0.25",
        _TAILS,
    ),
    Mutation(
        "influence: the curvature stands in for slopes where all residuals are cut",
        "",
        "_BEYOND, _NEAR = 4.0, 0.5",
        "_BEYOND, _NEAR = 4.0, 0.0",
        ("tests/algorithm/influence/test_influence_slopes.py", "-k", "without_errors"),
    ),
    Mutation(
        "influence: slopes beyond declared shapes are shrunk to them",
        "",
        "_BEYOND, _NEAR = 4.0, 0.5",
        "_BEYOND, _NEAR = 40.0, 0.5",
        (f"{_TESTS}/test_influence_slopes.py",),
    ),
    Mutation(
        "influence: drawn slopes may be below 0",
        "_moved",
        "return np.asarray(own @ grown @ own - slope, np.float64)",
        "return np.asarray(own @ grown @ own - own @ own, np.float64)",
        (f"{_TESTS}/test_influence_slopes.py",),
    ),
    Mutation(
        "influence: a replaced category of three columns moves the centre by 1",
        "centre_bounds",
        "squares += 1.0 if len(places) == 1 else 2.0",
        "squares += 1.0 if len(places) in (1, 3) else 2.0",
        _SUMS,
    ),
    Mutation(
        "influence: categories move the centre by as much as two columns do",
        "centre_bounds",
        "squares += len(places) / 4.0 if declaration.shifts[places[0]] else 1.0",
        "squares += min(len(places), 2) / 4.0 if declaration.shifts[places[0]] else 1.0",
        _SUMS,
    ),
    Mutation(
        "influence: the diagonal of the scatter is not shortened",
        "UnitRows.squares",
        "rows *= (INSIDE * rho / np.maximum(row_lengths(rows), INSIDE * rho))[:, None]",
        "pass",
        _SUMS,
    ),
)
