"""The mistakes that the first version's tests let pass, some of them in two places."""

from tests.mutations.mutation import MINIMISERS, SECURE, Mutation, replay

SURVIVED = (
    Mutation(
        "constant: Laplace noise halved",
        "_classification",
        "noised_whole(int(np.where(y > 0, 1, -1).sum()), scale, randomness)",
        "noised_whole(int(np.where(y > 0, 1, -1).sum()), scale / 2, randomness)",
        replay("constant-2"),
    ),
    Mutation(
        "constant: Gaussian noise quartered",
        "ExactRounds.scale",
        "return float(self.sum_noise[k] * (1.0 + HAIR))",
        "return float(self.sum_noise[k] / 4)",
        replay("constant"),
    ),
    Mutation(
        "newton: rows centred by the private mean",
        "NoiseAwareSteps.run",
        'NoisedGradients(details["steps"], model, centred(X, moments), y, sources.fresh(), size)',
        'NoisedGradients(details["steps"], model, X - np.append(0, X.mean(0)[1:]), y, sources.fresh(), size)',
        replay("newton"),
    ),
    Mutation(
        "newton: the actual number of records in the moments",
        "NoiseAwareSteps.run",
        """\
second_moments(
            situation.schema, options.row_norm**2 * gram, options.row_norm**2 * sums.noise, situation.records
        )
""",
        """\
second_moments(
            situation.schema, options.row_norm**2 * gram, options.row_norm**2 * sums.noise, len(X)
        )
""",
        replay("newton-2-add-remove"),
    ),
    Mutation(
        "newton: the actual number of records in the share",
        "NoiseAwareSteps.run",
        """\
share = _share(situation, square, sums.noise / options.stack.square)
fitted = _fit(situation, self.settings, pace, moments, share, asked.noise)
""",
        """\
share = _share(situation, square * situation.records / len(X), sums.noise / options.stack.square)
fitted = _fit(situation, self.settings, pace, moments, share, asked.noise)
""",
        replay("newton-2-add-remove"),
    ),
    Mutation(
        "ridge: noise of centre and sketch halved",
        "NoisedProducts.__call__",
        "self._rounds.noised(k, sums, self._sums.exponent) / self.algorithm.records",
        "self._rounds.noised(k, sums, self._sums.exponent, self._rounds.scale(k) / 2) / self.algorithm.records",
        replay("ridge-2-"),
    ),
    Mutation(
        "ridge: products longer than certified",
        "NoisedProducts.__init__",
        "kind(np.asarray(X, np.float64), self.algorithm.contribution, outputs)",
        "kind(np.asarray(X, np.float64), 2.0 * self.algorithm.contribution, outputs)",
        replay("ridge-2-"),
    ),
    Mutation(
        "ridge: the actual number of records",
        "NoisedProducts.__call__",
        "self._rounds.noised(k, sums, self._sums.exponent) / self.algorithm.records",
        "self._rounds.noised(k, sums, self._sums.exponent) / len(self._sums._lengths)",
        replay("ridge-2-add-remove"),
    ),
    Mutation(
        "ridge: rows centred by the private mean",
        "RidgeSteps.run",
        "NoisedGradients(parts.steps, model, rows, y, sources.fresh(), size)",
        "NoisedGradients(parts.steps, model, rows - rows.mean(0), y, sources.fresh(), size)",
        replay("ridge-2-"),
    ),
    Mutation(
        "statistics: residual variance from raw residuals",
        "Statistics.run",
        "GaussianLinear(noise_precision=1.0 / residual_variance(release))",
        "GaussianLinear(noise_precision=1.0 / float(np.var(y - X @ posterior.mean)))",
        replay("statistics"),
    ),
    Mutation(
        "variational: residual noise halved",
        "_residual_variance",
        "noised = float(rounds.noised(0, total, -DIGITS)[0])",
        "noised = float(rounds.noised(0, total, -DIGITS, rounds.scale(0) / 2)[0])",
        replay("regressor-variational"),
    ),
    Mutation(
        "variational: squares uncapped",
        "_residual_variance",
        "np.minimum((y - _scores_at(model, mean, X)[:, 0]) ** 2, _LARGEST_VARIANCE)",
        "(y - _scores_at(model, mean, X)[:, 0]) ** 2",
        replay("regressor-variational"),
    ),
    Mutation(
        "variational: temperature noise divided by 1000",
        "_steepened.noised_mean",
        "rounds.noised(k, sums, -DIGITS) / situation.records",
        "rounds.noised(k, sums, -DIGITS, 0.001 * rounds.scale(k)) / situation.records",
        replay("classifier-variational"),
    ),
    Mutation(
        "full gradients: clip doubled in the run only",
        "NoisedGradients.__init__",
        "ClippedGradients(model, X, y, self.algorithm.contribution)",
        "ClippedGradients(model, X, y, 2.0 * self.algorithm.contribution)",
        replay("gradients"),
    ),
    Mutation(
        "output: the minimiser's tolerance x 1000",
        "_minimiser",
        """\
minimiser(
        model,
        X,
        y,
        smoothness=slope * len(X) * situation.row_norm**2,
        regulariser=choice.regulariser / growth,
        tolerance=_tolerance(situation, choice),
    )
""",
        """\
minimiser(
        model,
        X,
        y,
        smoothness=slope * len(X) * situation.row_norm**2,
        regulariser=choice.regulariser / growth,
        tolerance=1000.0 * _tolerance(situation, choice),
    )
""",
        MINIMISERS,
    ),
    Mutation(
        "output: a quarter of the regulariser in the run only, classes",
        "_minimiser",
        """\
minimiser(
        model,
        X,
        y,
        smoothness=slope * len(X) * situation.row_norm**2,
        regulariser=choice.regulariser / growth,
        tolerance=_tolerance(situation, choice),
    )
""",
        """\
minimiser(
        model,
        X,
        y,
        smoothness=slope * len(X) * situation.row_norm**2,
        regulariser=choice.regulariser / growth / 4,
        tolerance=_tolerance(situation, choice),
    )
""",
        MINIMISERS,
    ),
    Mutation(
        "output: a quarter of the regulariser in the run only, least squares",
        "_minimiser",
        "ridge_in_ball(sums[:, :-1], sums[:, -1], choice.regulariser, choice.radius, tolerance)",
        "ridge_in_ball(sums[:, :-1], sums[:, -1], choice.regulariser / 4, choice.radius, tolerance)",
        MINIMISERS,
    ),
    Mutation(
        "output: four times the radius in the run only",
        "_minimiser",
        "ridge_in_ball(sums[:, :-1], sums[:, -1], choice.regulariser, choice.radius, tolerance)",
        "ridge_in_ball(sums[:, :-1], sums[:, -1], choice.regulariser, 4 * choice.radius, tolerance)",
        MINIMISERS,
    ),
    Mutation(
        "secure mode: a fixed key in every source",
        "SecureRandomness.__init__",
        "self._begin(secrets.token_bytes(KEY_BYTES))",
        "self._begin(bytes(KEY_BYTES))",
        SECURE,
    ),
    Mutation(
        "secure mode: a fixed key in the sources of a fit",
        "Sources.fresh",
        "return SecureRandomness()",
        'return SecureRandomness().resumed({"kind": "secure", "key": "00" * 32})',
        SECURE,
    ),
    Mutation(
        "secure mode: a seed in its place",
        "Sources.fresh",
        "return SecureRandomness()",
        "return SeededRandomness(self._given)",
        SECURE,
    ),
)
