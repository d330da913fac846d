"""Noisy gradient descent: Theorem D.6 of Ye & Shokri, its predecessor D.7, the shift bound, and the truth."""

from typing import TYPE_CHECKING

from papers.framework.bounds import epsilon_of, exact_epsilon, renyi_of
from papers.framework.figure import Figure, line_style
from papers.framework.item import Improved, Lower, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.ye_shokri.setting import AT_DELTA, DELTA, PARAMETERS, run_of, spaced

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


LINES = {
    "hidden-state.full-chourasia": "Chourasia et al., as D.7",
    "hidden-state.full": "Ye & Shokri, Theorem D.6",
    "composition.gaussian": "composition",
    "shifted.full": "shifts",
}
_UNDERNEATH = ("hidden-state.full-chourasia", "shifted.full")
AT_STEPS = (1, 10, 100, 1000)


@item(
    name="ye-shokri-full",
    paper="ye2022differentially",
    reproduces="Theorems D.6 and D.7, noisy gradient descent with full batches",
)
def full(options: Options) -> Outcome:
    """Epsilon and Rényi divergence against steps."""
    steps = AT_STEPS if options.quick else tuple(sorted({*spaced(1000, 30), *AT_STEPS}))
    epsilons = {name: [epsilon_of(name, run_of("full", count), DELTA) for count in steps] for name in LINES}
    exact = [exact_epsilon(run_of("full", count), DELTA) for count in steps]
    gap = max(high / truth - 1 for high, truth in zip(epsilons["shifted.full"], exact, strict=True))

    def draw(canvas: "Canvas") -> None:
        axes = canvas.add_subplot()
        for place, (name, label) in enumerate(LINES.items()):
            # D.6 is below D.7 by little, and shifts lie on the truth: what is underneath is drawn wide and pale.
            below = {"linewidth": 6.0, "alpha": 0.35, "linestyle": "-"} if name in _UNDERNEATH else {}
            axes.plot(steps, epsilons[name], label=label, **(line_style(place, markers=False) | below))
        axes.plot(steps, exact, "ko", markersize=3.5, label="exact, extremal quadratic")
        axes.set(xscale="log", yscale="log", xlabel="steps (full batch, so epochs)", ylabel=AT_DELTA)
        axes.legend()

    return Outcome(
        (
            Table(
                "epsilon",
                ("steps", *LINES.values(), "exact"),
                tuple(
                    (count, *(Upper(epsilons[name][place]) for name in LINES), Lower(exact[place]))
                    for place, count in enumerate(steps)
                ),
                f"{AT_DELTA.capitalize()}.",
            ),
            Table(
                "renyi",
                ("steps", *LINES.values()),
                tuple((count, *(_over_order(name, count) for name in LINES)) for count in AT_STEPS),
                "Rényi divergence over its order, the paper's unit; all four are linear in the order.",
            ),
        ),
        (Figure("epsilon", draw, "Noisy gradient descent: certified epsilon against steps, and the truth."),),
        Verdict(
            VerdictKind.SAME,
            "The appendix proves D.6 below D.7 and prints no numbers; D.6 is below D.7 here at every step count, and "
            "both are above the truth.",
        ),
        (
            "Composition is below D.6 for few steps; the shift bound is below composition always.",
            "Noise and sensitivity are those of ye-shokri-dynamics with one batch of 100 records.",
        ),
        (("records n = b", 100), *PARAMETERS),
        improved=(
            Improved(
                "shifted.full",
                "It is below both at every step count and equals the truth "
                f"(to {max(gap, 0.0):.0e}, the width of the search); the chain is the same.",
                "bound",
            ),
        ),
    )


def _over_order(name: str, steps: int) -> Upper | None:
    order = 10.0
    value = renyi_of(name, run_of("full", steps), order)
    return None if value is None else Upper(value / order)
