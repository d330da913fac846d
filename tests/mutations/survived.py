"""The mistakes that the first version's tests let pass, some of them in two places."""

from tests.mutations.mutation import mutations

SURVIVED = mutations(
    """
@@ constant: Laplace noise halved | _classification | replay/test_estimators.py -k constant-2
- noised_whole(int(np.where(y > 0, 1, -1).sum()), scale, randomness)
+ noised_whole(int(np.where(y > 0, 1, -1).sum()), scale / 2, randomness)
@@ constant: Gaussian noise quartered | ExactRounds.scale | replay/test_estimators.py -k constant
- return float(self.sum_noise[k] * (1.0 + HAIR))
+ return float(self.sum_noise[k] / 4)
@@ ridge: noise of centre and sketch halved | NoisedProducts.__call__ | replay/test_estimators.py -k ridge-2-
- self._rounds.noised(k, sums, self._sums.exponent) / self.algorithm.records
+ self._rounds.noised(k, sums, self._sums.exponent, self._rounds.scale(k) / 2) / self.algorithm.records
@@ ridge: products longer than certified | NoisedProducts.__init__ | replay/test_estimators.py -k ridge-2-
- kind(np.asarray(X, np.float64), self.algorithm.contribution, outputs)
+ kind(np.asarray(X, np.float64), 2.0 * self.algorithm.contribution, outputs)
@@ ridge: the actual number of records | NoisedProducts.__call__ | replay/test_estimators.py -k ridge-2-add-remove
- self._rounds.noised(k, sums, self._sums.exponent) / self.algorithm.records
+ self._rounds.noised(k, sums, self._sums.exponent) / len(self._sums._lengths)
@@ ridge: rows scaled by their own median length | RidgeSteps.run | replay/test_estimators.py -k ridge-2-
- geometry.scaled_by(typical_length(counts, problem.records, noise))
+ geometry.scaled_by(float(np.median(np.linalg.norm(geometry.rows(X)[:, 1:], axis=1))))
@@ counts: noise halved | noised_counts | replay/test_estimators.py -k ridge-2-
- rounds.noised(0, np.bincount(bins, minlength=number).astype(np.int64), 0)
+ rounds.noised(0, np.bincount(bins, minlength=number).astype(np.int64), 0, rounds.scale(0) / 2)
@@ ridge: rows centred by the private mean | RidgeSteps.run | replay/test_estimators.py -k ridge-2-
- NoisedGradients(parts.steps, model, scaled, y, sources.fresh(), size)
+ NoisedGradients(parts.steps, model, scaled - scaled.mean(0), y, sources.fresh(), size)
@@ dp-vi: residual noise halved | noised_residual_variance | replay/test_estimators.py -k regressor-dp-vi
- noised = float(rounds.noised(0, total, -DIGITS)[0])
+ noised = float(rounds.noised(0, total, -DIGITS, rounds.scale(0) / 2)[0])
@@ dp-vi: squares uncapped | noised_residual_variance | replay/test_estimators.py -k regressor-dp-vi
- np.minimum(residuals**2, _LARGEST_VARIANCE)
+ residuals**2
@@ dp-vi: temperature noise divided by 1000 | _steepened.noised_mean | replay/test_estimators.py -k classifier-dp-vi
- rounds.noised(k, sums, -DIGITS) / problem.records
+ rounds.noised(k, sums, -DIGITS, 0.001 * rounds.scale(k)) / problem.records
@@ full gradients: clip doubled in the run only | NoisedGradients.__init__ | replay/test_estimators.py -k ridge-2-
- ClippedGradients(model, X, y, self.algorithm.contribution)
+ ClippedGradients(model, X, y, 2.0 * self.algorithm.contribution)
@@ secure mode: a fixed key in every source | SecureRandomness.__init__ | estimators/test_secure_mode.py
- self._begin(secrets.token_bytes(KEY_BYTES))
+ self._begin(bytes(KEY_BYTES))
@@ secure mode: a fixed key in the sources of a fit | Sources.fresh | estimators/test_secure_mode.py
- return SecureRandomness()
+ return SecureRandomness().resumed({"kind": "secure", "key": "00" * 32})
@@ secure mode: a seed in its place | Sources.fresh | estimators/test_secure_mode.py
- return SecureRandomness()
+ return SeededRandomness(self._given)
"""
)
