"""Section 3 of Bertazzi et al.: privacy passes between a chain and its posterior, both ways."""

import math
from typing import TYPE_CHECKING

import numpy as np

from papers.bertazzi.langevin import LinearLangevin
from papers.bertazzi.statements import forced_distance, leaking_distance
from papers.framework.figure import Figure, line_style
from papers.framework.item import Beside, Lower, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from sordino.accounting.theorems.transfer import transferred
from sordino.core.guarantee import GaussianDP
from sordino.models.exact import hockey_stick

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


CHAIN = LinearLangevin(1.0, 0.5, 1e-4)
EPSILON = 1.0
_CAPTION = (
    "ULA towards two neighbouring posteriors N(-0.5, 1) and N(0.5, 1). Delta at epsilon 1 of the last iterate, "
    "exactly; what Proposition 3.2 transfers from the posterior; and the total variation to the posterior that "
    "decides both."
)


@item(name="bertazzi-transfer", paper="bertazzi2025differential", reproduces="Propositions 3.2, 3.3 and 3.4")
def transfer(options: Options) -> Outcome:
    """Transfer, leak and forced distance on a chain whose law, and whose posterior, are known."""
    steps = [int(t) for t in np.unique(np.geomspace(300, 400_000, 9 if options.quick else 29).round())]
    posterior = GaussianDP(2 * CHAIN.v / math.sqrt(CHAIN.a))
    leaked = hockey_stick(CHAIN.posterior(1), CHAIN.posterior(-1), EPSILON).low
    claimed = leaked / 2
    distance = leaking_distance(EPSILON, claimed, leaked)
    rows = [(t, _distance(t), _exact(t)) for t in steps]
    moved = [transferred(posterior, r).delta(EPSILON) for _, r, _ in rows]
    leaking = next(t for t, r, _ in rows if r <= distance)
    forced = forced_distance(EPSILON, claimed, leaked)
    early = max((row for row in rows if row[2] <= claimed), key=lambda row: row[0])
    return Outcome(
        tables=(
            Table(
                "transfer",
                ("steps", "total variation to the posterior", "exact delta", "delta by Proposition 3.2"),
                tuple((t, Upper(r), exact, Upper(d)) for (t, r, exact), d in zip(rows, moved, strict=True)),
                f"Delta at epsilon = {EPSILON:g}; the posterior itself has {leaked:.4f}.",
            ),
        ),
        figures=(Figure("transfer", lambda canvas: _draw(canvas, rows, moved, leaked, claimed, leaking), _CAPTION),),
        verdict=Verdict(
            VerdictKind.SAME,
            "Every transferred delta is above the exact one, and they meet as the chain converges; the chain does leak "
            f"what Proposition 3.3 says it must from step {leaking:,} on, and a chain that is still private is as far "
            "from its posterior as Proposition 3.4 says.",
        ),
        notes=(
            f"Leak: the posterior is not ({EPSILON:g}, {leaked:.4f})-DP, so a chain within {distance:.4f} of it is not "
            f"({EPSILON:g}, {claimed:.4f})-DP. At step {leaking:,} its exact delta is {_exact(leaking):.4f}.",
            f"Distance: up to step {early[0]:,} the chain is ({EPSILON:g}, {claimed:.4f})-DP, so it is more than "
            f"{forced:.4f} from its posterior; exactly, {early[1]:.4f}.",
            f"The bias of ULA stays: after 400,000 steps the total variation is {rows[-1][1]:.1e}, not 0.",
        ),
        parameters=(("a", CHAIN.a), ("v", CHAIN.v), ("gamma", CHAIN.gamma), ("epsilon", EPSILON)),
        beside=(
            Beside("first leaking step seen", None, leaking, "Proposition 3.3"),
            Beside("distance forced on a private chain", None, Lower(forced), f"exact {early[1]:.4f}"),
        ),
    )


def _distance(steps: int) -> float:
    """The larger distance of the two datasets; they are mirror images."""
    return hockey_stick(CHAIN.law(steps, 1), CHAIN.posterior(1), 0.0).high


def _exact(steps: int) -> float:
    return hockey_stick(CHAIN.law(steps, 1), CHAIN.law(steps, -1), EPSILON).high


def _draw(
    canvas: "Canvas",
    rows: list[tuple[int, float, float]],
    moved: list[float],
    leaked: float,
    claimed: float,
    leaking: int,
) -> None:
    axes = canvas.add_subplot()
    steps = [row[0] for row in rows]
    axes.plot(steps, moved, label="delta by transfer", **line_style(0, markers=False))
    axes.plot(steps, [row[2] for row in rows], label="exact delta of the chain", **line_style(1, markers=False))
    axes.plot(steps, [row[1] for row in rows], label="total variation to the posterior", **line_style(2, markers=False))
    axes.axhline(leaked, color="#3b3b3b", linewidth=0.8)
    axes.annotate("delta of the posterior", (steps[0], leaked), (0, 3), textcoords="offset points")
    axes.axhline(claimed, color="#8c8c8c", linewidth=0.8)
    axes.annotate("claimed delta", (steps[0], claimed), (0, 3), textcoords="offset points")
    axes.axvline(leaking, color="#8c8c8c", linewidth=0.8)
    axes.annotate("leaks from here (3.3)", (leaking, 3e-5), (-4, 0), textcoords="offset points", ha="right")
    axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="delta at epsilon 1, or distance", ylim=(1e-5, 1.3))
    canvas.legend(loc="outside lower center", ncols=3)
