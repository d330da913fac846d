"""Mistakes in survey weights: weights that are not cut, or that count twice."""

from tests.mutations.mutation import Mutation

_REPLAY = ("tests/estimators/test_survey_weights.py", "-k", "replay or bounds or written")
IN_WEIGHTS = (
    Mutation(
        "weights: not cut to their bounds",
        "data/weights.py",
        "return np.clip(values, self.low, self.high) / self.high",
        "return values / self.high",
        _REPLAY,
    ),
    Mutation(
        "weights: not divided by the largest",
        "data/weights.py",
        "return np.clip(values, self.low, self.high) / self.high",
        "return np.clip(values, self.low, self.high)",
        _REPLAY,
    ),
    Mutation(
        "weights: instead of the share of a unit's record",
        "algorithm/influence/sums.py",
        "self.masses = self.masses * weights[order]",
        "self.masses = weights[order]",
        _REPLAY,
    ),
)
