"""Two pairs of laws whose likelihood ratio is known: what Lemmas 4.1 and 4.2 make of it, and the exact delta."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from papers.bertazzi.statements import from_moments, from_tail, posterior_from_chain, released_with_noise
from papers.framework.figure import PANELS, Figure, line_style
from papers.framework.item import Beside, Cell, Lower, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from sordino.core.guarantee import ORDERS, GaussianDP, RenyiDP

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


@dataclass(frozen=True)
class RatioPair:
    """P and Q by their log-likelihood ratio under P.

    Attributes:
        tail: epsilon to P(log dP/dQ > epsilon).
        log_moment: order to log E_P (dP/dQ)^(order - 1).
        exact: epsilon to the smallest delta.
    """

    name: str
    tail: Callable[[float], float]
    log_moment: Callable[[float], float]
    exact: Callable[[float], float]

    def by_tail(self, epsilon: float) -> float:
        """delta by Lemma 4.1."""
        return from_tail(epsilon, self.tail(epsilon)).delta(epsilon)

    def by_moments(self, epsilon: float) -> float:
        """delta by Lemma 4.2 and the best order."""
        return self._curve.delta(epsilon)

    @property
    def _curve(self) -> RenyiDP:
        return from_moments(ORDERS, [self.log_moment(order) for order in ORDERS])


def gaussian_pair(mu: float) -> RatioPair:
    """N(0, 1) and N(mu, 1): what a change of drift gives along a path, where the ratio is Gaussian (Girsanov)."""
    return RatioPair(
        f"Gaussian, mu = {mu:g}",
        lambda epsilon: float(special.ndtr(mu / 2 - epsilon / mu)),
        lambda order: order * (order - 1) * mu * mu / 2,
        GaussianDP(mu).delta,
    )


def laplace_pair(shift: float) -> RatioPair:
    """Laplace laws of scale 1 and a shift: the ratio is bounded, so nothing is left beyond epsilon = shift."""

    def tail(epsilon: float) -> float:
        return 1 - math.exp(-(shift - epsilon) / 2) / 2 if epsilon < shift else 0.0

    def log_moment(order: float) -> float:
        share = order / (2 * order - 1)
        grown = (order - 1) * shift
        return grown + math.log(share + (1 - share) * math.exp(-order * shift - grown))

    return RatioPair(
        f"Laplace, shift {shift:g}",
        tail,
        log_moment,
        lambda epsilon: max(0.0, -math.expm1((epsilon - shift) / 2)),
    )


# Lemmas 4.1 and 4.2, Propositions 3.2(ii) and A.6 of Bertazzi et al.: the tools, each beside the exact value.

PAIRS = (gaussian_pair(1.0), laplace_pair(2.0))
SHOWN = (0.0, 0.5, 1.0, 1.5, 1.9)
FAILURES = (1e-6, 1e-3, 1e-2)
BIASES = (0.0, 1e-4, 1e-2)
EPSILON = 1.0


@item(
    name="bertazzi-ratios",
    paper="bertazzi2025differential",
    reproduces="Lemmas 4.1 and 4.2 and Propositions 3.2(ii) and A.6: from likelihood ratios and couplings to privacy",
)
def ratios(options: Options) -> Outcome:
    """delta by tail, by moments and exactly for two pairs; a released random value; a posterior from its chain."""
    grid = np.linspace(0.0, 5.0, 21 if options.quick else 201)
    worst = max(_excess(pair, "by_tail") for pair in PAIRS), max(_excess(pair, "by_moments") for pair in PAIRS)
    noise = GaussianDP(0.5)
    return Outcome(
        (
            *(
                Table(
                    pair.name.split(",")[0].lower(),
                    ("epsilon", "exact", "Lemma 4.1, tail", "Lemma 4.2, moments"),
                    tuple(_row(pair, epsilon) for epsilon in SHOWN),
                    f"delta at an epsilon: {pair.name}.",
                )
                for pair in PAIRS
            ),
            Table(
                "released",
                ("failure of the coupling", "delta, as A.6 states it", "delta, composed"),
                tuple(_released(noise, failure) for failure in FAILURES),
                f"Proposition A.6 at epsilon {EPSILON:g}: a value whose coupling keeps within the noise's reach except "
                "with a small probability, and noise that is 0.5-Gaussian DP there.",
            ),
            Table(
                "posterior",
                ("bias that stays", "delta of the posterior"),
                tuple((bias, Upper(posterior_from_chain(EPSILON, 1e-5, bias).delta(EPSILON))) for bias in BIASES),
                f"Proposition 3.2(ii): a chain that is ({EPSILON:g}, 1e-5)-DP after any number of steps makes its "
                "posterior private; what stays of the distance between them adds to delta.",
            ),
        ),
        (Figure("delta", lambda canvas: _draw(canvas, grid), _CAPTION, *PANELS),),
        Verdict(
            VerdictKind.SAME,
            "Both lemmas give a delta above the exact one everywhere. At equal delta 1e-5 the tail costs up to "
            f"{worst[0]:.2f} of epsilon and the moments up to {worst[1]:.2f}; where the ratio's law is known, as along "
            "a Langevin path, neither is needed.",
        ),
        (
            "Lemma 4.1 is the first term of the exact delta: it forgets that Q also falls into the bad set.",
            "A.6 adds the failure to delta; composing the two mechanisms gives delta (1 - failure) + failure, a little "
            "less.",
            "Propositions A.2 to A.4 state 3.2 to 3.4 for any two families of laws; bertazzi-transfer executes them.",
        ),
        (("Gaussian mu", 1.0), ("Laplace shift", 2.0), ("epsilon of the last two tables", EPSILON)),
        (
            Beside(
                "epsilon at delta 1e-5, Gaussian, tail", None, *_exactly(PAIRS[0]), Upper(_epsilon(PAIRS[0], "by_tail"))
            ),
            Beside(
                "epsilon at delta 1e-5, Gaussian, moments",
                None,
                *_exactly(PAIRS[0]),
                Upper(_epsilon(PAIRS[0], "by_moments")),
            ),
        ),
    )


_CAPTION = "delta against epsilon by each lemma and exactly, for a Gaussian and a Laplace pair."


def _row(pair: RatioPair, epsilon: float) -> tuple[Cell, ...]:
    return epsilon, Lower(pair.exact(epsilon)), Upper(pair.by_tail(epsilon)), Upper(pair.by_moments(epsilon))


def _epsilon(pair: RatioPair, way: str) -> float:
    """The epsilon at delta 1e-5, to a thousandth from above."""
    low, high = 0.0, 40.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if getattr(pair, way)(middle) <= 1e-5 else (middle, high)
    return high


def _excess(pair: RatioPair, way: str) -> float:
    return _epsilon(pair, way) - _epsilon(pair, "exact")


def _exactly(pair: RatioPair) -> tuple[Cell, str]:
    return _epsilon(pair, "exact"), "exact conversion"


def _released(noise: GaussianDP, failure: float) -> tuple[Cell, ...]:
    stated = min(1.0, noise.delta(EPSILON) + failure)
    return failure, Upper(stated), Upper(released_with_noise(noise, failure).delta(EPSILON))


def _draw(canvas: "Canvas", grid: np.ndarray) -> None:
    panels = canvas.subplots(1, 2, sharey=True, squeeze=False)[0]
    for axes, pair in zip(panels, PAIRS, strict=True):
        for place, (name, way) in enumerate(
            (("exact", pair.exact), ("Lemma 4.1, tail", pair.by_tail), ("Lemma 4.2, moments", pair.by_moments))
        ):
            values = [way(float(epsilon)) for epsilon in grid]
            shown = [value if value > 0 else math.nan for value in values]
            axes.plot(grid, shown, label=name, **line_style(place, False))
        axes.set(yscale="log", ylim=(1e-8, 1.5), xlabel="epsilon", title=pair.name)
    panels[1].set_xlim(-0.1, 2.6)  # Laplace noise on a move of 2 costs no more than 2
    panels[0].set_ylabel("delta")
    panels[0].legend()
