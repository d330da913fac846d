"""The two baselines of Ye & Shokri's Figure 1 in their own currency: Theorem 2.1 and D.5, by the record's batch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from papers.extremal_pair import extremal_pair
from papers.framework.figure import PANELS, Figure, line_style
from papers.framework.item import Beside, Cell, Lower, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.framework.renyi import renyi
from papers.ye_shokri.setting import (
    BATCH,
    BATCHES,
    CONTRACTION,
    CURVATURE,
    PARAMETERS,
    RATIO,
    RECORDS,
    SMOOTHNESS,
    STEP_SIZE,
    run_of,
    spaced,
)
from sordino.accounting.bounds.closed_forms import cyclic_shift
from sordino.accounting.theorems import hidden_state as fixed_batches
from sordino.models.exact import chain_law

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


U = RATIO**2 / 2
SQUARE = 1 - 2 * STEP_SIZE * SMOOTHNESS * CURVATURE / (SMOOTHNESS + CURVATURE)
AT_EPOCHS = (1, 2, 10, 100)
LINES = ("naive, Theorem 2.1", "Balle et al., D.5", "composition", "Ye & Shokri, 3.3", "shifts")


@dataclass(frozen=True)
class Coefficients:
    """Rényi divergence over its order for a record of one batch after so many epochs, in the order of LINES."""

    epochs: int
    bounds: tuple[float, ...]
    exact: float


@item(
    name="ye-shokri-baselines",
    paper="ye2022differentially",
    reproduces="Theorems 2.1 and D.5, the baselines of Figure 1, for a record of the first and of the last batch",
)
def baselines(options: Options) -> Outcome:
    """Rényi divergence over its order against epochs, both baselines beside 3.3, composition, shifts and the truth."""
    epochs = AT_EPOCHS if options.quick else tuple(sorted({*spaced(1000, 22), *AT_EPOCHS}))
    found = {place: [_coefficients(count, place) for count in epochs] for place in ("first", "last")}
    crossing = next(count for count in range(1, 10_000) if _naive(count) < count * U)
    hundred = {place: _coefficients(100, place) for place in found}
    return Outcome(
        tuple(
            Table(
                f"{place}-batch",
                ("epochs", *LINES, "exact"),
                tuple(_row(one) for one in rows if options.quick or one.epochs in AT_EPOCHS or one.epochs == 1000),
                f"Rényi divergence over its order, record in the {place} of {BATCHES} batches.",
            )
            for place, rows in found.items()
        ),
        (Figure("baselines", lambda canvas: _draw(canvas, found), _CAPTION, *PANELS),),
        Verdict(
            VerdictKind.PARAMETERS_NOT_PUBLISHED,
            "Figure 1's settings are in the main text, which is not at hand. At ours both baselines are valid and "
            "behave as Appendices C and D.6 say: D.5 grows with every epoch, the naive bound converges but charges "
            f"every step and is below composition only from epoch {crossing} on. After 100 epochs a record of the "
            f"last batch has {hundred['last'].bounds[1]:.3f} by D.5, {hundred['last'].bounds[0]:.2f} by the naive "
            f"bound, {hundred['last'].bounds[3]:.4f} by Theorem 3.3, {hundred['last'].bounds[4]:.4f} by shifts, and "
            f"{hundred['last'].exact:.4f} exactly.",
        ),
        (
            "Theorem 2.1 is not in the appendix; Appendix C describes it, and it is read here as the full-batch bound "
            "on b records with every step charged.",
            "In D.5 the substitution L -> eta S_g / 2 turns 2 (L/b)^2 / (2 eta sigma^2) into eta S_g^2 / "
            "(4 b^2 sigma^2), which is the u of all other bounds.",
            "All values are linear in the order, so one coefficient says it for every order.",
        ),
        (("records n", RECORDS), ("batch size b", BATCH), *PARAMETERS),
        (Beside("D.5 per epoch, first batch", None, Upper(_balle(1, BATCHES)), "u = kappa^2 / 2 = 0.02"),),
    )


_CAPTION = (
    "Rényi divergence over its order against epochs, for a record of the first batch of every pass and of the last; "
    "dots are exact."
)


def _coefficients(epochs: int, place: str) -> Coefficients:
    left = BATCHES if place == "first" else 1
    run = run_of("cyclic", epochs * BATCHES)
    pair = extremal_pair(run, 0 if place == "first" else RECORDS - 1)
    order = 2.0
    exact = renyi(chain_law(run, pair.first), chain_law(run, pair.second), order) / order
    hidden = float(fixed_batches.strongly_convex(CONTRACTION, U, BATCHES, epochs - 1, left))
    return Coefficients(
        epochs, (_naive(epochs), _balle(epochs, left), epochs * U, hidden, _shifted(epochs, left)), exact
    )


def _naive(epochs: int) -> float:
    return fixed_batches.chourasia(STEP_SIZE * CURVATURE, U, epochs * BATCHES)


def _balle(epochs: int, left: int) -> float:
    return float(fixed_batches.balle(SQUARE, U, BATCHES, epochs - 1, left))


def _shifted(epochs: int, left: int) -> float:
    return cyclic_shift(CONTRACTION, RATIO, BATCHES, epochs, left - 1) ** 2 / 2


def _row(one: Coefficients) -> tuple[Cell, ...]:
    return one.epochs, *(Upper(value) for value in one.bounds), Lower(one.exact)


def _draw(canvas: "Canvas", found: dict[str, list[Coefficients]]) -> None:
    panels = canvas.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (place, rows) in zip(panels, found.items(), strict=True):
        epochs = [one.epochs for one in rows]
        for line, name in enumerate(LINES):
            axes.plot(epochs, [one.bounds[line] for one in rows], label=name, **line_style(line, False))
        axes.plot(epochs, [one.exact for one in rows], "ko", markersize=3.2, label="exact", linestyle="none")
        axes.set(xscale="log", yscale="log", xlabel="epochs", title=f"record in the {place} batch")
    panels[0].set_ylabel("Rényi divergence over its order")
    canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
