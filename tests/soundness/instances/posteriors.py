"""Exact posterior draws, and the one event of Propose-Test-Sample whose probability is known."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sordino.core.guarantee import LossDistribution
from sordino.core.loss.atomic_pairs import ExplicitPair
from sordino.core.spec import Spec
from sordino.models.exact import ConjugateRegression, GaussianLaw
from tests.soundness.cells import CellTruth
from tests.soundness.pieces import between, described, direction, laplace_below, log_uniform
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import GaussianTruth


def _draw(potential: dict[str, Any], n: int | None = None, draws: int = 1, drawn: dict[str, Any] | None = None) -> Spec:
    algorithm = {"kind": "posterior-sample", "potential": potential, "draws": draws, "drawn": drawn}
    return described(algorithm, view="one-sample", problem=None if n is None else {"n": n})


@instance("posterior-strongly-log-concave")
def _shifted(rng: np.random.Generator) -> Instance:
    """Gaussian posteriors of any precision, at least m, that differ by a shift."""
    dim, convexity = int(rng.integers(1, 4)), log_uniform(rng, 0.1, 100)
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    precisions = convexity * np.append(1.0, rng.uniform(1, 5, dim - 1))
    precision = (basis * precisions) @ basis.T
    lean = log_uniform(rng, 0.05, 5) * math.sqrt(convexity)
    ways = {"flattest": basis[:, 0], "random": direction(rng, dim)}
    covariance, found = np.linalg.inv(precision), []
    for label, way in ways.items():
        shift = np.linalg.solve(precision, lean * way)
        laws = (GaussianLaw(sign * shift, covariance) for sign in (0.0, 1.0))
        found.append(Neighbours(label, GaussianTruth(*laws)))
    potential = {"kind": "strongly-log-concave", "lipschitz": lean * (1 + 1e-12), "strong_convexity": convexity}
    return Instance(_draw(potential | {"strong_convexity": convexity * (1 - 1e-12)}), tuple(found))


@instance("posterior-bounded")
def _exponential(rng: np.random.Generator) -> Instance:
    """Exponential densities on an interval, whose slopes differ by L: cells have closed-form probabilities."""
    diameter, lean, slope = log_uniform(rng, 0.1, 10), log_uniform(rng, 0.05, 3), float(rng.uniform(-3, 3))

    def masses(rate: float) -> np.ndarray:
        return _on_cells(rate if abs(rate) > 1e-6 else 1e-6, diameter, 4000)

    truths = {"steeper": slope + lean, "flatter": slope - lean}
    found = tuple(Neighbours(label, CellTruth(masses(slope), masses(other))) for label, other in truths.items())
    return Instance(_draw({"kind": "bounded", "lipschitz": lean + 2e-6, "diameter": diameter}), found)


_CELLS = 1500


def _slopes(rng: np.random.Generator) -> tuple[float, float, np.ndarray]:
    """The length of an interval, the height of a potential on it, and three slopes of it: one, and two neighbours."""
    diameter, height = log_uniform(rng, 0.1, 10), float(rng.uniform(0.3, 4.0))
    steep = height / diameter
    slope = float(rng.uniform(0.0, steep))
    other = np.clip(slope + np.array([1.0, -1.0]) * log_uniform(rng, 0.05, 1.0) * steep, 0.0, steep)
    return diameter, height, np.array([slope, *other])


def _on_cells(rate: float, diameter: float, cells: int = _CELLS) -> np.ndarray:
    """Probabilities of cells under e^(-rate x) on [0, D]."""
    cuts = np.linspace(0.0, diameter, cells + 1)
    return np.diff(-np.expm1(-rate * cuts)) / -math.expm1(-rate * diameter)


@instance("posterior-rejection")
def _rejected(rng: np.random.Generator) -> Instance:
    """Uniform proposals on an interval, so few that they may all fail: the law is a mixture, known exactly."""
    diameter, height, slopes = _slopes(rng)
    trials = int(log_uniform(rng, 1.0, 40.0) * math.exp(height)) + 1
    laws = []
    for slope in slopes:
        rate = max(float(slope), 1e-9)
        accepted = -math.expm1(-rate * diameter) / (rate * diameter)
        fails = (1 - accepted) ** trials
        laws.append((1 - fails) * _on_cells(rate, diameter) + fails / _CELLS)
    lean = float(np.abs(slopes[1:] - slopes[0]).max())
    drawn = {"kind": "rejection", "trials": trials, "dim": 1, "oscillation": height}
    return _program(drawn, lean, diameter, laws)


@instance("posterior-rejection-none")
def _refused(rng: np.random.Generator) -> Instance:
    """Gaussian posteriors under an envelope that is too wide; that there is no draw is one more outcome."""
    convexity, factor = log_uniform(rng, 0.1, 10.0), float(rng.uniform(1.0, 9.0))
    curvature, trials = factor * convexity, int(rng.integers(6, 60))
    lean = log_uniform(rng, 0.05, 3.0) * math.sqrt(convexity)
    cuts = np.linspace(-12.0, 12.0, _CELLS + 1) / math.sqrt(curvature)
    fails = (1 - 1 / math.sqrt(factor)) ** trials
    laws = []
    for centre in (0.0, lean / curvature):
        cells = between(special.ndtr((cuts - centre) * math.sqrt(curvature)))
        laws.append(np.append((1 - fails) * cells, fails))
    constants = {"lipschitz": lean * (1 + 1e-12), "strong_convexity": convexity * (1 - 1e-12)}
    drawn = {"kind": "rejection", "trials": trials, "dim": 1, "smoothness": curvature * (1 + 1e-12)}
    spec = _draw({"kind": "strongly-log-concave"} | constants, drawn=drawn)
    return Instance(spec, (Neighbours("moved", CellTruth(laws[0], laws[1])),))


@instance("posterior-perturbed")
def _perturbed(rng: np.random.Generator) -> Instance:
    """Draws moved away from each other by the whole distance, then noise: laws on cells, by convolution."""
    diameter, _, slopes = _slopes(rng)
    near = log_uniform(rng, 1e-3, 0.5) * diameter
    kind, scale = ("laplace", "gaussian")[int(rng.integers(2))], log_uniform(rng, 0.2, 5.0) * near
    points = (np.arange(_CELLS) + 0.5) / _CELLS * diameter
    cuts = np.linspace(-near - 12 * scale, diameter + near + 12 * scale, 400)

    def law(slope: float, move: float) -> np.ndarray:
        gaps = (cuts[:, None] - points[None, :] - move) / scale
        below = special.ndtr(gaps) if kind == "gaussian" else laplace_below(gaps)
        return between(below @ _on_cells(max(slope, 1e-9), diameter))

    lean = float(np.abs(slopes[1:] - slopes[0]).max())
    drawn = {"kind": "perturbed", "distance": near, "dim": 1, "noise": {"kind": kind, "scale": scale}}
    laws = [law(float(slopes[0]), -near), law(float(slopes[1]), near), law(float(slopes[2]), near)]
    return _program(drawn, lean, diameter, laws)


def _program(drawn: dict[str, Any], lean: float, diameter: float, laws: list[np.ndarray]) -> Instance:
    found = tuple(Neighbours(label, CellTruth(laws[0], other)) for label, other in zip("ab", laws[1:], strict=True))
    potential = {"kind": "bounded", "lipschitz": lean + 2e-9, "diameter": diameter}
    return Instance(_draw(potential, drawn=drawn), found)


@dataclass(frozen=True, eq=False)
class _Repeated:
    """Independent draws from two laws on cells: the lower end of the engine's bracket of their product."""

    first: np.ndarray
    second: np.ndarray
    draws: int

    def delta(self, epsilon: float) -> float:
        ways = ((self.first, self.second), (self.second, self.first))
        return max(self._way(p, q).delta_bracket(min(epsilon, 700.0)).low for p, q in ways)

    def renyi(self, order: float) -> float:
        logs = np.log(self.first), np.log(self.second)
        sums = [special.logsumexp(order * p + (1 - order) * q) for p, q in (logs, logs[::-1])]
        return self.draws * max(sums) / (order - 1)

    def _way(self, first: np.ndarray, second: np.ndarray) -> LossDistribution:
        order = np.argsort(first / second)
        losses, masses = np.log(first / second)[order], first[order] / first.sum()
        return LossDistribution(((ExplicitPair(tuple(losses.tolist()), tuple(masses.tolist()), 0.0), self.draws),))


def two_values(width: float, share: float, draws: int) -> Instance:
    """A potential that differs by 0 or r = L D, as at two ends of a set: the two-point law with t = share * r.

    The limit of steep Lipschitz functions on few cells; it attains the bound at the t that is worst.
    """
    top = share * width
    mass = -math.expm1(top - width) / -math.expm1(-width)
    first = np.array([mass, 1 - mass])
    second = first * np.exp([-top, width - top])
    spec = _draw({"kind": "bounded", "lipschitz": width, "diameter": 1.0}, draws=draws)
    truth = _Repeated(first, second / second.sum(), draws)
    return Instance(spec, (Neighbours(f"losses {top:g} and {top - width:g}", truth),))


@instance("posterior-two-values")
def _two_values(rng: np.random.Generator) -> Instance:
    """One to forty draws from posteriors on two points."""
    return two_values(log_uniform(rng, 0.01, 3.0), float(rng.uniform(0.1, 0.9)), int(rng.integers(1, 40)))


@instance("posterior-linear-regression")
def _regression(rng: np.random.Generator) -> Instance:
    """Conjugate posteriors on the domain of Heller & Fetaya, the records at its corners or at random."""
    low = float(rng.uniform(0.3, 2.0))
    high = low * float(rng.uniform(1.05, 2.0))
    alpha, beta = log_uniform(rng, 0.05, 50), 3.01 / high**2 * log_uniform(rng, 1, 50)
    gamma, centre = float(rng.uniform(0, 0.45)), float(rng.choice([0.0, 1.0, 100.0]))
    ratio = (high / low) ** 2
    n = int(max(1 + 20 * ratio / beta, 1 + 2 * ratio, 20 * (ratio - 1)) * rng.uniform(1.1, 5.0)) + 2
    regression = ConjugateRegression(alpha, beta)
    found = []
    for label in ("corners", "random"):
        x, slopes = rng.uniform(low, high, n), centre + n**gamma * rng.uniform(-1, 1, n)
        if label == "corners":
            x[:], slopes[:] = high, centre + n**gamma * rng.choice([-1, 1])
        laws = []
        for edge, sign in ((low, 1), (high, -1)):
            x[-1], slopes[-1] = edge, centre + sign * n**gamma
            laws.append(regression.posterior(x[:, None], x * slopes))
        found.append(Neighbours(label, GaussianTruth(*laws)))
    potential = {"alpha": alpha, "beta": beta, "gamma1": gamma, "x_low": low, "x_high": high, "c": centre}
    return Instance(_draw({"kind": "linear-regression"} | potential, n), tuple(found))


@instance("propose-test-sample")
def _proposed(rng: np.random.Generator) -> Instance:
    """All ratios are 0, or one of them is out of every range: how often line 14 already returns null."""
    epsilon, delta, n = log_uniform(rng, 0.1, 1.0), log_uniform(rng, 1e-6, 0.2), int(rng.integers(1, 60))
    margin = -math.log(2 * delta) / epsilon

    def below(value: float) -> float:
        return float(laplace_below(np.array(epsilon * value)))

    empty = below(margin - n)
    null = [empty * below(1 + margin) + (1 - empty) * below(1 + margin - count) for count in (n, n - 1)]
    truth = CellTruth(*(np.array([chance, 1 - chance]) for chance in null))
    ranges = {"x_low": 0.5, "x_high": 2.0, "alpha": 1.0, "beta": 1.0, "gamma1": 0.45, "rho1": 1.1, "rho2": 0.2}
    algorithm = {"kind": "propose-test-sample", "epsilon": epsilon, "delta": delta, **ranges, "sampler": "exact"}
    return Instance(described(algorithm, view="one-sample"), (Neighbours("in range or not", truth),))
