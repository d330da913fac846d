"""Noisy SGD (15) on records that pull by constants, with weight decay: Theorem 5.7's setting, exactly solvable."""

import math
from dataclasses import dataclass

from sordino.core.errors import SordinoError
from sordino.core.gaussian import epsilon_upper
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec
from sordino.reproduce.bounds import bound_of, epsilon_of, exact_epsilon

DELTA = 1e-5


@dataclass(frozen=True)
class ConstantPulls:
    """m = `records` pulls of at most 1, batches of `size` drawn afresh, weight decay `decay`, temperature 1 / beta."""

    records: int
    size: int
    decay: float
    step: float
    beta: float

    def spec(self, steps: int, view: str = "last-iterate") -> Spec:
        """The run."""
        return Spec.from_dict(
            {
                "algorithm": {
                    "kind": "noisy-gradient",
                    "steps": steps,
                    "step_size": self.step,
                    "noise": {"kind": "gaussian", "scale": math.sqrt(2 * self.step / self.beta)},
                    "batch": {"scheme": "without-replacement", "size": self.size},
                },
                "problem": {
                    "n": self.records,
                    "dim": 1,
                    "gradient_sensitivity": 2.0,
                    "gradient_bound": 1.0,
                    "unclipped_smoothness": 0.0,
                    "strong_convexity": self.decay,
                    "smoothness": self.decay,
                    "regulariser": {"strong_convexity": self.decay, "smoothness": self.decay},
                },
                "relation": "replace-one",
                "view": view,
            }
        )

    def constant(self, steps: int) -> float:
        """C_7."""
        return 2 * self._mu("langevin.constant-drift", steps) ** 2

    def without_batches(self, steps: int) -> float:
        """C_6 of Theorem 5.6, which does not use that the pulls are constant."""
        return 2 * self._mu("langevin.last-iterate", steps) ** 2

    def path_constant(self, steps: int) -> float:
        """C_8 = beta (2 / s)^2 n gamma."""
        return self.beta * (2 / self.size) ** 2 * steps * self.step

    def epsilon(self, theorem: str, steps: int, view: str = "last-iterate") -> float:
        """A theorem's epsilon at DELTA."""
        return epsilon_of(theorem, self.spec(steps, view), DELTA)

    def exact(self, steps: int) -> float:
        """The exact epsilon of the last iterate over all patterns of batches, rounded down."""
        return exact_epsilon(self.spec(steps), DELTA)

    def _mu(self, theorem: str, steps: int) -> float:
        bound = bound_of(theorem, self.spec(steps))
        if bound is None or not isinstance(bound.guarantee, GaussianDP):
            raise SordinoError(f"Expected a Gaussian guarantee from {theorem} for constant pulls, got none.")
        return bound.guarantee.mu


def printed_epsilon(constant: float) -> float:
    """As Theorems 5.7 and 5.8 print it: C + sqrt(C log(1/delta))."""
    return constant + math.sqrt(constant * math.log(1 / DELTA))


def proved_epsilon(constant: float) -> float:
    """As their proofs give it: C/4 + sqrt(C log(1/delta))."""
    return constant / 4 + math.sqrt(constant * math.log(1 / DELTA))


def exact_conversion(constant: float) -> float:
    """mu = sqrt(C / 2), converted exactly."""
    return epsilon_upper(math.sqrt(constant / 2), DELTA)
