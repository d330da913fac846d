"""ULA whose data part is a constant force: Assumption 5.1 with equality, and exactly Gaussian."""

import math
from dataclasses import dataclass

import numpy as np

from sordino.core.spec import Spec
from sordino.model.exact import GaussianLaw


@dataclass(frozen=True)
class LinearLangevin:
    """x - gamma (a x + d) + sqrt(2 gamma) z from 0, d = -v or v on two neighbouring datasets; target N(-d/a, 1/a)."""

    a: float
    v: float
    gamma: float

    @property
    def factor(self) -> float:
        """Contraction of one step."""
        return 1 - self.gamma * self.a

    def law(self, steps: int, sign: int) -> GaussianLaw:
        """The last iterate with d = -sign v."""
        faded = -math.expm1(steps * math.log(self.factor))
        squares = -math.expm1(2 * steps * math.log(self.factor)) / (1 - self.factor**2)
        return GaussianLaw(np.array([sign * self.v / self.a * faded]), np.array([[2 * self.gamma * squares]]))

    def posterior(self, sign: int) -> GaussianLaw:
        """The law the chain is meant to sample."""
        return GaussianLaw(np.array([sign * self.v / self.a]), np.array([[1 / self.a]]))

    def exact_constant(self, steps: int) -> float:
        """C = 2 mu^2 of the last iterate, from its two laws."""
        one, other = self.law(steps, 1), self.law(steps, -1)
        gap = float(one.mean[0] - other.mean[0])
        return 2 * gap * gap / float(one.covariance[0, 0])


def langevin_spec(n: int, a: float, smoothness: float, gamma: float, steps: int, bound: float = 1.0) -> Spec:
    """Full-batch Langevin at temperature 1: gradients of at most `bound`, any loss, with a regulariser."""
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": gamma,
                "noise": {"kind": "gaussian", "scale": math.sqrt(2 * gamma)},
                "batch": {"scheme": "full"},
                "clipping": {"kind": "norm", "bound": bound},
            },
            "problem": {
                "n": n,
                "dim": 1,
                "gradient_sensitivity": 2 * bound,
                "gradient_bound": bound,
                "regulariser": {"strong_convexity": a, "smoothness": smoothness},
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
