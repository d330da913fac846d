"""The figure of `sordino audit --plot`: the tests that were found, above the errors that the certificate allows."""

import numpy as np

from sordino.auditing.lower_bound import Examined, LowerBound
from sordino.core.bound import Bound
from sordino.core.gaussian import show_down, show_up
from sordino.report import charts as svg_lines
from sordino.report.charts import Figure, Line
from sordino.report.page_figures import tests_found

# Both ends of a trade-off curve are steep: as many points near 0 and 1 as between.
_SIZES = np.sin(np.linspace(0.0, np.pi / 2, 61)) ** 2


def trade_off_figure(lower: LowerBound, bound: Bound | None) -> str:
    """SVG text: false negatives against false positives."""
    lines = [Line("blind guessing", ((0.0, 1.0), (1.0, 0.0)))]
    if lower.curve:
        points = sorted((point.false_positive, point.false_negative) for point in lower.curve)
        lines.append(Line(tests_found(lower), tuple(points)))
    if bound is not None:
        limits = bound.guarantee.beta(_SIZES)
        certified = tuple(zip(_SIZES.tolist(), np.asarray(limits).tolist(), strict=True))
        lines.append(Line(f"no test below: {bound.theorem}", certified))
    return svg_lines.draw(
        Figure(
            title="How well can a neighbour be told apart?",
            subtitle=f"relation {lower.relation}, view {lower.view}; towards the corner at 0 is less private",
            x_title="false positives",
            y_title="false negatives",
            lines=tuple(lines),
            remark=_remark(lower, bound),
            log_x=False,
            log_y=False,
        )
    )


def _remark(lower: LowerBound, bound: Bound | None) -> str:
    source = "the description leaks" if lower.examined is Examined.DESCRIPTION else f"the {lower.method} audit finds"
    found = f"At delta {lower.delta:g}: {source} epsilon at least {show_down(lower.epsilon)}"
    if bound is None:
        return f"{found}; no theorem gives a finite epsilon."
    return f"{found}, certified at most {show_up(bound.guarantee.epsilon(lower.delta))}."
