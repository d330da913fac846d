"""The figure of `sordino certify --plot`: epsilon against steps for every theorem, with the crossings named."""

import math

from sordino.report import svg_lines
from sordino.report.steps_curves import StepCurves
from sordino.report.svg_lines import Figure, Line, Note

# An axis is logarithmic when its largest value is more than this many times its smallest.
_WIDE = 12.0


def steps_figure(curves: StepCurves) -> str:
    """SVG text."""
    values = [value for _, line in curves.epsilons for value in line if math.isfinite(value)]
    positive = [value for value in values if value > 0]
    log_x = curves.steps[-1] > _WIDE * curves.steps[0]
    log_y = bool(positive) and max(positive) > _WIDE * min(positive)
    spec = curves.spec
    return svg_lines.draw(
        Figure(
            title="Certified epsilon against the number of steps",
            subtitle=f"relation {spec.relation}, view {spec.view}, delta {curves.delta:g}; smaller is more private",
            x_title=curves.counted + (" (logarithmic)" if log_x else ""),
            y_title="epsilon" + (" (logarithmic)" if log_y else ""),
            lines=tuple(
                Line(name, tuple(zip(map(float, curves.steps), line, strict=True))) for name, line in curves.epsilons
            ),
            envelope=_envelope(curves),
            envelope_name="the tightest at each step",
            notes=crossing_notes(curves),
            remark=_remark(curves),
            log_x=log_x,
            log_y=log_y,
            whole_x=True,
        )
    )


def crossing_notes(curves: StepCurves) -> tuple[Note, ...]:
    """The crossings as numbered points of the lower envelope."""
    return tuple(_note(curves, number) for number in range(len(curves.crossings)))


def _envelope(curves: StepCurves) -> tuple[tuple[float, float], ...]:
    """The tightest epsilon at every step count."""
    columns = zip(*(line for _, line in curves.epsilons), strict=True)
    return tuple((float(steps), min(column)) for steps, column in zip(curves.steps, columns, strict=False))


def _note(curves: StepCurves, number: int) -> Note:
    """The crossing's place on the lower envelope, between the two step counts around it."""
    crossing = curves.crossings[number]
    points = [(steps, value) for steps, value in _envelope(curves) if math.isfinite(value) and value > 0]
    left = max((point for point in points if point[0] <= crossing.steps), default=points[0])
    right = min((point for point in points if point[0] >= crossing.steps), default=points[-1])
    if left[0] == right[0]:
        return Note(crossing.steps, left[1], crossing.sentence)
    share = math.log(crossing.steps / left[0]) / math.log(right[0] / left[0])
    height = math.exp((1 - share) * math.log(left[1]) + share * math.log(right[1]))
    return Note(crossing.steps, height, crossing.sentence)


def _remark(curves: StepCurves) -> str:
    if not curves.epsilons:
        return "No theorem gives a finite epsilon for this run."
    if curves.crossings:
        return ""
    return "The same theorem is the tightest, or as tight as any, at every number of steps."
