"""The noise that each bound asks for at the paper's budget."""

from collections.abc import Callable
from dataclasses import dataclass

from sordino.accounting.calibrate import calibrate
from sordino.accounting.heavy_tail.markov import corrected_bound, lyapunov
from sordino.accounting.published.heavy_tail import stated_bound
from sordino.core.search import least_true
from sordino.reproduce.simsekli.setting import DIM, Setting

_LEAST, _MOST = 1e-6, 10.0
# Calibration asks for an epsilon too; the guarantee is (0, delta), so any will do.
_EPSILON = 1.0


@dataclass(frozen=True)
class Rule:
    """A way to find the noise for a budget; `valid` says whether the answer is a certificate."""

    name: str
    valid: bool
    scale: Callable[[Setting, float], float]


def _stated(setting: Setting, alpha: float) -> float:
    def enough(scale: float) -> bool:
        found = lyapunov(setting.constants, alpha, scale, setting.step, DIM, 0.0, universal_point=True)
        return stated_bound(found, found.rate, setting.n) <= setting.delta

    return least_true(enough, _LEAST, _MOST)


def _corrected(setting: Setting, alpha: float) -> float:
    def enough(scale: float) -> bool:
        found = lyapunov(setting.constants, alpha, scale, setting.step, DIM, 0.0, universal_point=False)
        return corrected_bound(found, 1.0, found.rate, setting.n) <= setting.delta

    return least_true(enough, _LEAST, _MOST)


def _coupling_as_in_the_paper(setting: Setting, alpha: float) -> float:
    return calibrate(setting.papers_spec(alpha, 0.01), _EPSILON, setting.delta, "noise").value


def _coupling(setting: Setting, alpha: float) -> float:
    return calibrate(setting.sharp_spec(alpha, 0.01), _EPSILON, setting.delta, "noise").value


RULES = (
    Rule("Theorem 9 as the paper uses it", False, _stated),
    Rule("Theorem 9 corrected, C = 1 and rho = beta assumed", False, _corrected),
    Rule("coupling, the paper's constants", True, _coupling_as_in_the_paper),
    Rule("coupling, sharp constants", True, _coupling),
)
