"""Mistakes that would break a guarantee without changing a word of its certificate, and the fast tests that find them.

Each is one change of text in the package. `tests` are arguments of pytest that pass as things are and fail with the
change; `test_mutations.py` tries them all.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    """In `file`, `old`, which occurs there once, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _replay(words: str) -> tuple[str, ...]:
    return ("tests/replay/test_estimators.py", "-k", words)


_ENGINES = "tests/replay/test_engines.py"
_MINIMISERS = ("tests/replay/test_minimisers.py",)
_SECURE = ("tests/estimators/test_secure_mode.py",)
_SOURCE = ("tests/algorithm/test_secure_randomness.py",)
_FORKS = ("tests/algorithm/test_forks.py",)
_SUMS = ("tests/algorithm/exact_noise/test_record_sums.py", "tests/algorithm/sufficient_statistics")
_GAUSSIANS = ("tests/algorithm/exact_noise/test_gaussians.py",)
_NOISED = ("tests/algorithm/exact_noise/test_noised.py",)
_LAPLACE = ("tests/algorithm/exact_noise/test_whole_laplace.py",)
_BATCHES = ("tests/algorithm/test_batches.py",)

_METHODS = "estimators/methods"
# The eleven that the first version's tests let pass, some in two places.
SURVIVED = (
    Mutation(
        "constant: Laplace noise halved",
        f"{_METHODS}/constant.py",
        "noised_whole(int(np.where(y > 0, 1, -1).sum()), scale, randomness)",
        "noised_whole(int(np.where(y > 0, 1, -1).sum()), scale / 2, randomness)",
        _replay("constant-2"),
    ),
    Mutation(
        "constant: Gaussian noise quartered",
        f"{_METHODS}/constant.py",
        "return situation.clips * multiplier(situation.mu) * (1.0 + _HAIR)",
        "return situation.clips * multiplier(situation.mu) * (1.0 + _HAIR) / 4",
        _replay("constant"),
    ),
    Mutation(
        "newton: rows centred by the private mean",
        f"{_METHODS}/newton.py",
        'noised_gradients(details["steps"], model, centred(X, moments), y, sources.fresh(), size)',
        'noised_gradients(details["steps"], model, X - np.append(0.0, X[:, 1:].mean(axis=0)), y, sources.fresh(), size)',
        _replay("newton"),
    ),
    Mutation(
        "newton: the actual number of records in the moments",
        f"{_METHODS}/newton.py",
        "options.row_norm**2 * gram, options.row_norm**2 * sums.noise, situation.records",
        "options.row_norm**2 * gram, options.row_norm**2 * sums.noise, len(X)",
        _replay("newton-2-add-remove"),
    ),
    Mutation(
        "newton: the actual number of records in the share",
        f"{_METHODS}/newton.py",
        "share = _share(situation, square, sums.noise / options.stack.square)\n        fitted",
        "share = _share(situation, square * situation.records / len(X), sums.noise / options.stack.square)\n        fitted",
        _replay("newton-2-add-remove"),
    ),
    Mutation(
        "statistics: residual variance from raw residuals",
        f"{_METHODS}/statistics.py",
        "GaussianLinear(noise_precision=1.0 / residual_variance(release))",
        "GaussianLinear(noise_precision=1.0 / float(np.var(y - X @ posterior.mean)))",
        _replay("statistics"),
    ),
    Mutation(
        "variational: residual noise halved",
        f"{_METHODS}/variational.py",
        "noise = 0.5 * situation.clips * multiplier(_mu_of_check(situation))",
        "noise = 0.25 * situation.clips * multiplier(_mu_of_check(situation))",
        _replay("regressor-variational"),
    ),
    Mutation(
        "variational: squares uncapped",
        f"{_METHODS}/variational.py",
        "np.minimum((y - _scores_at(model, mean, X)[:, 0]) ** 2, _LARGEST_VARIANCE)",
        "(y - _scores_at(model, mean, X)[:, 0]) ** 2",
        _replay("regressor-variational"),
    ),
    Mutation(
        "variational: temperature noise divided by 1000",
        f"{_METHODS}/variational.py",
        "noise = situation.clips * LENGTH * multiplier(_mu_of_check(situation))",
        "noise = 0.001 * situation.clips * LENGTH * multiplier(_mu_of_check(situation))",
        _replay("classifier-variational"),
    ),
    Mutation(
        "full gradients: clip doubled in the run only",
        "algorithm/full_gradients/run.py",
        "ClippedGradients(model, X, y, algorithm.clip)",
        "ClippedGradients(model, X, y, 2.0 * algorithm.clip)",
        _replay("gradients"),
    ),
    Mutation(
        "output: the minimiser's tolerance x 1000",
        f"{_METHODS}/output.py",
        "        tolerance=_tolerance(situation, choice),\n    )",
        "        tolerance=1000.0 * _tolerance(situation, choice),\n    )",
        _MINIMISERS,
    ),
    Mutation(
        "output: a quarter of the regulariser in the run only, classes",
        f"{_METHODS}/output.py",
        "regulariser=choice.regulariser / growth,",
        "regulariser=choice.regulariser / growth / 4,",
        _MINIMISERS,
    ),
    Mutation(
        "output: a quarter of the regulariser in the run only, least squares",
        f"{_METHODS}/output.py",
        "ridge_in_ball(gram, cross, choice.regulariser, choice.radius)",
        "ridge_in_ball(gram, cross, choice.regulariser / 4, choice.radius)",
        _MINIMISERS,
    ),
    Mutation(
        "output: four times the radius in the run only",
        f"{_METHODS}/output.py",
        "ridge_in_ball(gram, cross, choice.regulariser, choice.radius)",
        "ridge_in_ball(gram, cross, choice.regulariser, 4 * choice.radius)",
        _MINIMISERS,
    ),
    Mutation(
        "secure mode: a fixed key in every source",
        "algorithm/secure_randomness.py",
        "self._begin(secrets.token_bytes(KEY_BYTES))",
        "self._begin(bytes(KEY_BYTES))",
        _SECURE,
    ),
    Mutation(
        "secure mode: a fixed key in the sources of a fit",
        "estimators/sources.py",
        "            return SecureRandomness()",
        '            return SecureRandomness().resumed({"kind": "secure", "key": "00" * 32})',
        _SECURE,
    ),
    Mutation(
        "secure mode: a seed in its place",
        "estimators/sources.py",
        "            return SecureRandomness()",
        "            return SeededRandomness(self._given)",
        _SECURE,
    ),
)

OWN = (
    # Estimators.
    Mutation(
        "variational: mean square over the actual number of records",
        f"{_METHODS}/variational.py",
        "mean_square = 0.5 + (noised + noise) / situation.records",
        "mean_square = 0.5 + (noised + noise) / len(X)",
        _replay("regressor-variational-add-remove"),
    ),
    Mutation(
        "variational: the squares' noise is that of add-remove",
        f"{_METHODS}/variational.py",
        "noise = 0.5 * situation.clips * multiplier(_mu_of_check(situation))",
        "noise = 0.5 * multiplier(_mu_of_check(situation))",
        _replay("regressor-variational-replace-one"),
    ),
    Mutation(
        "variational: the check is not in the spec",
        f"{_METHODS}/variational.py",
        "in_parts(situation, steps, _check_spec(situation))",
        "in_parts(situation, steps)",
        _replay("regressor-variational-replace-one"),
    ),
    Mutation(
        "constant: targets not cut to their bound",
        f"{_METHODS}/constant.py",
        "scaled = np.clip(y / bound, -1.0, 1.0)",
        "scaled = 2.0 * y / bound",
        _replay("linear-constant"),
    ),
    Mutation(
        "constant: the length of a target and its square taken as 1",
        f"{_METHODS}/constant.py",
        "noise = np.sqrt(2.0) * _noise(situation)",
        "noise = _noise(situation)",
        _replay("linear-constant"),
    ),
    Mutation(
        "constant: counts over the actual number of records",
        f"{_METHODS}/constant.py",
        "_shrunk(count / situation.records, noise / situation.records, 1.0 / classes)",
        "_shrunk(count / len(y), noise / situation.records, 1.0 / classes)",
        _replay("constant-3-add-remove"),
    ),
    Mutation(
        "gradients: the start from unnoised least squares",
        f"{_METHODS}/gradients.py",
        "start=_start(situation, found), rule=_RULE",
        "start=np.linalg.lstsq(X, y, rcond=None)[0], rule=_RULE",
        _replay("robust-gradients"),
    ),
    Mutation(
        "gradients: the sums are not in the spec",
        f"{_METHODS}/gradients.py",
        "spec = in_parts(situation, sums, steps)",
        "spec = in_parts(situation, steps)",
        _replay("robust-gradients"),
    ),
    Mutation(
        "arrays: the actual number of records is declared",
        "estimators/declaration.py",
        "schema = given.schema(width, records, labels)",
        "schema = given.schema(width, rows, labels)",
        _replay("constant-add-remove"),
    ),
    Mutation(
        "one seeded source for all parts of a fit",
        "estimators/sources.py",
        "        self._given += 1\n",
        "        self._given = 1\n",
        _SECURE,
    ),
    # Noised sums.
    Mutation(
        "statistics: noise halved",
        "algorithm/sufficient_statistics/run.py",
        "scales = silent.noise / weights * (1.0 + _HAIR)",
        "scales = 0.5 * silent.noise / weights * (1.0 + _HAIR)",
        _replay("statistics"),
    ),
    Mutation(
        "statistics: the sensitivity of add-remove under replace-one",
        "algorithm/sufficient_statistics/run.py",
        "self.options.stack.sensitivity(self.spec.relation)",
        "self.options.stack.length",
        _replay("statistics"),
    ),
    Mutation(
        "statistics: one noise for sums of unlike weight",
        "algorithm/sufficient_statistics/run.py",
        "scales = silent.noise / weights * (1.0 + _HAIR)",
        "scales = silent.noise * np.ones(len(weights))",
        _replay("gradients or newton"),
    ),
    Mutation(
        "statistics: targets not cut",
        "algorithm/sufficient_statistics/stack.py",
        "np.clip(y[part], -1.0, 1.0)",
        "y[part]",
        _SUMS,
    ),
    Mutation(
        "statistics: the cross products' weight forgotten in the sensitivity",
        "algorithm/sufficient_statistics/stack.py",
        "0.5 * (2.0 + self.cross**2) ** 2 + self.square**2",
        "2.0 + self.square**2",
        _replay("statistics or gradients"),
    ),
    Mutation(
        "record sums: rows not brought into the ball",
        "algorithm/exact_noise/record_sums.py",
        "digits(rows * (INSIDE / np.maximum(row_lengths(rows), INSIDE))[:, None])",
        "digits(rows)",
        _SUMS,
    ),
    Mutation(
        "record sums: digits rounded to the nearest",
        "algorithm/exact_noise/record_sums.py",
        "np.trunc(values * math.ldexp(1.0, DIGITS - exponent))",
        "np.rint(values * math.ldexp(1.0, DIGITS - exponent))",
        _SUMS,
    ),
    Mutation(
        "record sums: contributions not shortened",
        "algorithm/exact_noise/record_sums.py",
        "digits(values * (most / np.maximum(row_lengths(values), most))[:, None], exponent)",
        "digits(values, exponent)",
        _replay("gradients"),
    ),
    Mutation(
        "full gradients: noise halved",
        "algorithm/full_gradients/run.py",
        "scales = feed.sum_noise * (1.0 + _HAIR)",
        "scales = feed.sum_noise / 2",
        _replay("gradients"),
    ),
    Mutation(
        "full gradients: mean over the actual number of records",
        "algorithm/full_gradients/run.py",
        "scales[k], noise, part) / algorithm.records",
        "scales[k], noise, part) / len(y)",
        _replay("gradients-add-remove"),
    ),
    Mutation(
        "natural gradients: noise halved",
        "algorithm/full_gradients/natural.py",
        "gaussian_call(total, scales[k]), partial(_drawn, total, scales[k], noise)",
        "gaussian_call(total, scales[k]), partial(_drawn, total, scales[k] / 2, noise)",
        ("tests/algorithm/full_gradients", "tests/replay/test_engines.py", "-k", "natural"),
    ),
    Mutation(
        "natural gradients: contributions not shortened",
        "algorithm/full_gradients/natural.py",
        "np.minimum(1.0, _INSIDE * clip / np.maximum(lengths, 1e-30))",
        "1.0",
        (_ENGINES, "-k", "natural gradients"),
    ),
    Mutation(
        "output: noise halved",
        "algorithm/output_perturbation/run.py",
        "noised_numbers(point, algorithm.noise.scale, noise)",
        "noised_numbers(point, algorithm.noise.scale / 2, noise)",
        _replay("output"),
    ),
    # Compiled rounds and chains.
    Mutation(
        "rounds: one clip under replace-one",
        "algorithm/rounds/feed.py",
        "{Relation.REPLACE_ONE: 2.0, Relation.ADD_REMOVE: 1.0}",
        "{Relation.REPLACE_ONE: 1.0, Relation.ADD_REMOVE: 1.0}",
        (_ENGINES, "-k", "natural gradients"),
    ),
    Mutation(
        "rounds: noise halved",
        "algorithm/rounds/feed.py",
        "jnp.asarray(part(self.sum_noise, first, length), self.dtype)",
        "jnp.asarray(part(self.sum_noise, first, length) / 2, self.dtype)",
        (_ENGINES, "-k", "EM, full"),
    ),
    Mutation(
        "rounds: any number of rows under replace-one",
        "algorithm/rounds/feed.py",
        "spec.relation == Relation.REPLACE_ONE and rows != algorithm.records",
        "False",
        ("tests/algorithm/full_gradients",),
    ),
    Mutation(
        "rounds: passes where subsets are described",
        "algorithm/rounds/feed.py",
        "Sampling.WITHOUT_REPLACEMENT: Scheme.WITHOUT_REPLACEMENT",
        "Sampling.WITHOUT_REPLACEMENT: Scheme.RESHUFFLED",
        (_ENGINES, "-k", "scheme"),
    ),
    Mutation(
        "rounds: subsets where Poisson batches are described",
        "algorithm/rounds/feed.py",
        "Sampling.POISSON: Scheme.POISSON",
        "Sampling.POISSON: Scheme.WITHOUT_REPLACEMENT",
        (_ENGINES, "-k", "scheme"),
    ),
    Mutation(
        "rounds: noise of a block used in every block",
        "algorithm/rounds/feed.py",
        "self.randomness.gaussians(Purpose.NOISE, first, length, (size,), self.dtype)",
        "self.randomness.gaussians(Purpose.NOISE, 0, length, (size,), self.dtype)",
        ("tests/algorithm/variational", "tests/algorithm/message_passing/test_run.py", "tests/replay/test_engines.py"),
    ),
    Mutation(
        "EM: contributions not shortened",
        "algorithm/em/kernel.py",
        "real @ (clip * clip_by_norm(stacked / clip, 1.0))",
        "real @ stacked",
        (_ENGINES, "-k", "EM, full"),
    ),
    Mutation(
        "EM: counts limited by the actual number of records",
        "algorithm/em/run.py",
        "for value in (algorithm.clip, growth, algorithm.records))",
        "for value in (algorithm.clip, growth, len(X)))",
        _replay("mixture-em-add-remove"),
    ),
    Mutation(
        "EM: noise halved",
        "algorithm/em/kernel.py",
        "program.port.added(total, block.scales[k], block.gaussians[k])",
        "program.port.added(total, 0.5 * block.scales[k], block.gaussians[k])",
        (_ENGINES, "-k", "EM, full"),
    ),
    Mutation(
        "variational inference: clip doubled in the run only",
        "algorithm/variational/run.py",
        "jnp.asarray(algorithm.clip, dtype)",
        "jnp.asarray(2.0 * algorithm.clip, dtype)",
        (_ENGINES, "-k", "variational, full"),
    ),
    Mutation(
        "variational inference: the actual number of records as divisor",
        "algorithm/variational/run.py",
        "jnp.asarray(algorithm.batch_size, dtype)",
        "jnp.asarray(len(X), dtype)",
        (_ENGINES, "-k", "variational, full-add-remove"),
    ),
    Mutation(
        "variational inference: several draws not shortened",
        "algorithm/variational/kernel.py",
        "weights @ (clip * clip_by_norm(averaged / clip, 1.0))",
        "weights @ averaged",
        (_ENGINES, "-k", "two draws"),
    ),
    Mutation(
        "variational inference: the length forgets the deviations",
        "algorithm/variational/family.py",
        "return 1.0 + self._moved(phi, standard) ** 2",
        "return jnp.ones_like(standard)",
        ("tests/algorithm/variational", _ENGINES, "-k", "variational"),
    ),
    Mutation(
        "message passing: clip doubled in the run only",
        "algorithm/message_passing/run.py",
        "jnp.asarray(feeding.clip, dtype)",
        "jnp.asarray(2.0 * feeding.clip, dtype)",
        (_ENGINES, "-k", "messages, full"),
    ),
    Mutation(
        "chain: noise halved",
        "algorithm/kernel.py",
        "program.port.added(theta - block.step_sizes[k] * drift, block.scales[k][:, None], block.gaussians[k])",
        "program.port.added(theta - block.step_sizes[k] * drift, block.scales[k][:, None] / 2, block.gaussians[k])",
        (_ENGINES, "-k", "chain, full"),
    ),
    Mutation(
        "chain: clip doubled in the run only",
        "algorithm/run.py",
        "bound = 0.0 if algorithm.clipping is None else algorithm.clipping.bound",
        "bound = 0.0 if algorithm.clipping is None else 2.0 * algorithm.clipping.bound",
        (_ENGINES, "-k", "chain, full"),
    ),
    Mutation(
        "chain: the actual number of rows as divisor",
        "algorithm/run.py",
        "constants = _constants(spec, algorithm, dtype)",
        "constants = _constants(spec, algorithm, dtype)._replace(divisor=jnp.asarray(rows.count, dtype))",
        (_ENGINES, "-k", "chain, full-add-remove"),
    ),
    Mutation(
        "chain: not projected",
        "algorithm/kernel.py",
        "    if program.projected:\n        after = on_ball(after, constants.radius)\n",
        "",
        ("tests/algorithm/test_run.py", _ENGINES, "-k", "project or chain, cyclic"),
    ),
    Mutation(
        "chain: residuals not cut",
        "model/clip.py",
        "jnp.clip(residuals, -caps, caps)",
        "residuals",
        (_ENGINES, "-k", "chain, full"),
    ),
    Mutation(
        "clipping: vectors not shortened",
        "model/clip.py",
        "shortened = vectors * (target / jnp.maximum(lengths, target))",
        "shortened = vectors",
        (_ENGINES, "-k", "EM, full"),
    ),
    Mutation(
        "chain: the released average without its noise",
        "algorithm/collect.py",
        "lambda: mean + scale * noise(",
        "lambda: mean + 0.5 * scale * noise(",
        ("tests/algorithm/test_release.py",),
    ),
    Mutation(
        "batches: a new order is the old one",
        "algorithm/parts/batches/passes.py",
        "    redrawn = True\n\n    def order(self, earlier: Indices | None) -> Indices:\n        return self",
        "    redrawn = True\n\n    def order(self, earlier: Indices | None) -> Indices:\n        return earlier if earlier is not None else self",
        _BATCHES,
    ),
    Mutation(
        "batches: Poisson at twice the rate",
        "algorithm/parts/batches/poisson.py",
        "-math.log1p(-sampling.rate)",
        "-2.0 * math.log1p(-sampling.rate)",
        _BATCHES,
    ),
    # Exact noise.
    Mutation(
        "exact noise: sums get half the noise",
        "algorithm/exact_noise/noised.py",
        "lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent)))",
        "lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent - 1)))",
        _NOISED,
    ),
    Mutation(
        "exact noise: numbers get half the noise",
        "algorithm/exact_noise/noised.py",
        "cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent))",
        "cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent - 1))",
        _NOISED,
    ),
    Mutation(
        "exact noise: no negative draws",
        "algorithm/exact_noise/gaussians.py",
        "self._negative = generator.integers(0, 2, size, dtype=np.int64) == 1",
        "self._negative = np.zeros(size, bool)",
        _GAUSSIANS,
    ),
    Mutation(
        "exact noise: whole parts of a geometric law",
        "algorithm/exact_noise/gaussians.py",
        "self._repeat(self.whole * (self.whole - 1), lambda places: self._half_exponential(len(places)))",
        "pass",
        _GAUSSIANS,
    ),
    Mutation(
        "exact noise: draws used twice",
        "algorithm/exact_noise/gaussians.py",
        "        self._used[places] = True\n",
        "",
        _GAUSSIANS,
    ),
    Mutation(
        "exact Laplace noise halved",
        "algorithm/exact_noise/whole_laplace.py",
        "top, bottom = exact.numerator, exact.denominator",
        "top, bottom = exact.numerator, 2 * exact.denominator",
        _LAPLACE,
    ),
    Mutation(
        "exact Laplace noise with twice the zeros",
        "algorithm/exact_noise/whole_laplace.py",
        "if not (negative and size == 0):",
        "if True:",
        _LAPLACE,
    ),
    # Secure randomness.
    Mutation(
        "secure source: a key of 32 random bits",
        "algorithm/secure_randomness.py",
        "self._begin(secrets.token_bytes(KEY_BYTES))",
        "self._begin(secrets.token_bytes(4) * (KEY_BYTES // 4))",
        _SECURE,
    ),
    Mutation(
        "secure source: one key for all purposes",
        "algorithm/secure_randomness.py",
        'f"{use} {int(purpose)}".encode()',
        'f"{use}".encode()',
        _SOURCE,
    ),
    Mutation(
        "secure source: one key for device and host",
        "algorithm/secure_randomness.py",
        'f"{use} {int(purpose)}".encode()',
        'f"{int(purpose)}".encode()',
        _SOURCE,
    ),
    Mutation(
        "secure source: eight rounds of ChaCha on the host",
        "algorithm/secure_randomness.py",
        "_ROUNDS = 20",
        "_ROUNDS = 8",
        _SOURCE,
    ),
    Mutation(
        "secure source: Gaussians are given again",
        "algorithm/secure_randomness.py",
        "if first < self._next.get(purpose, 0):",
        "if False:",
        _SOURCE,
    ),
    Mutation(
        "secure source: generators are given again",
        "algorithm/secure_randomness.py",
        "if purpose in self._started:",
        "if False:",
        _SOURCE,
    ),
    Mutation(
        "secure source: every step has the first step's noise",
        "algorithm/secure_randomness.py",
        "(first + number // np.uint32(per_step), zero, zero)",
        "(number // np.uint32(per_step), zero, zero)",
        _SOURCE,
    ),
    Mutation(
        "secure source: both words of a draw are the same",
        "algorithm/secure_randomness.py",
        "gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)",
        "gaussians_from_words(words[:_DRAWS], words[:_DRAWS], dtype)",
        _SOURCE,
    ),
    Mutation(
        "secure source: forks go on",
        "algorithm/randomness.py",
        'if object.__getattribute__(self, "_made_in") != this_process():',
        "if False:",
        _FORKS,
    ),
    Mutation(
        "secure source: forks are told by their number alone",
        "algorithm/randomness.py",
        "return os.getpid(), _Forks.number",
        "return os.getpid(), 0",
        _FORKS,
    ),
    Mutation(
        "secure source: a plain generator",
        "algorithm/secure_randomness.py",
        "return SecureGenerator(_bit_generator()(key=key, rounds=_ROUNDS))",
        "return np.random.Generator(_bit_generator()(key=key, rounds=_ROUNDS))",
        _FORKS,
    ),
    Mutation(
        "secure source: bits keep their key in a fork",
        "algorithm/secure_randomness.py",
        "        living.add(self)\n",
        "",
        _FORKS,
    ),
)

MUTATIONS = SURVIVED + OWN
