"""Mistakes in survey weights: weights that are not cut, or that count twice."""

from tests.mutations.mutation import Mutation

_REPLAY = ("tests/estimators/test_survey_weights.py", "-k", "replay or bounds or written")
IN_WEIGHTS = (
    Mutation(
        "weights: not cut to their bounds",
        "DeclaredWeight.shares",
        "return np.clip(values, self.low, self.high) / self.high",
        "return values / self.high",
        _REPLAY,
    ),
    Mutation(
        "weights: not divided by the largest",
        "DeclaredWeight.shares",
        "return np.clip(values, self.low, self.high) / self.high",
        "return np.clip(values, self.low, self.high)",
        _REPLAY,
    ),
    Mutation(
        "weights: instead of the share of a unit's record",
        "UnitRows.__init__",
        "self.masses = self.masses * weights[order]",
        "self.masses = weights[order]",
        _REPLAY,
    ),
)
