"""Every figure: intervals of a posterior, upper and lower bound as a bar and against steps, trade-off curves.

Curves against steps are worked out here: what every theorem says of a run that stops early.
"""

import math
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from sordino.accounting.evaluate import evaluate, theorems
from sordino.accounting.scope import scheme_of
from sordino.auditing.lower_bound import AuditOptions, Examined, LowerBound, audit
from sordino.core.bound import Bound
from sordino.core.gaussian import show_down, show_up
from sordino.core.guarantee import LossDistribution, check_delta
from sordino.core.results import Estimate, figure, interval, percent
from sordino.core.spec import Composite, NoisedSums, NoisyGradient, Scheme, Spec, Thinning
from sordino.core.validate import InputError
from sordino.inference.contrasts import INTERCEPT, Line
from sordino.report import charts

if TYPE_CHECKING:
    from sordino.inference.expectation import Expectation
    from sordino.inference.summary import Summary as Inference

MOST_INTERVALS = 30  # more than these make a figure that nobody reads; the table has them all
_ROW, _LONGEST_NAME, _BAR = 22.0, 22, 120.0
# Both ends of a trade-off curve are steep: as many points near 0 and 1 as between.
_SIZES = np.sin(np.linspace(0.0, np.pi / 2, 41)) ** 2
_WIDE = 12.0  # an axis is logarithmic when its largest value is more than this many times its smallest
_SOURCES = {Examined.DESCRIPTION: "description", Examined.RUN: "attack"}
# What a forest plot adds to the style sheet of a figure that is a file of its own.
FOREST_SHEET = (
    ".zero{fill:none;stroke:#4d4d4d;stroke-dasharray:2 3}.outer{fill:none;stroke:#1f5fa8;stroke-width:1.6}"
    ".inner{fill:none;stroke:#1f5fa8;stroke-width:6;opacity:.5}.mean{fill:#1f5fa8}"
    ".hollow{fill:#fff;stroke:#1f5fa8;stroke-width:1.6}"
)
_MOST_LINES = 5  # lines of theorems that lost, besides the tightest
_TALLEST = 3.0  # a line that lost by far leaves the figure, so that the two bounds keep their height
FOREST = "Thin line: the interval. Thick line: its width without privacy. Hollow point: prior-dominated."
STEPS = "Numbers: per step shown. Yes/no: yes against no. Categories: against the first value."
POINTS, FEW_POINTS = 40, 20  # step counts asked about: closed forms are free, loss distributions may take seconds each
# Loss distributions answer with the upper end of a bracket of relative width 1e-3; less is not a difference.
_TIE = 2e-3
# Schemes that go through the records in passes; beyond the first epoch their curves are drawn at whole epochs.
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
PATIENCE = 25.0  # curves that take longer than this are left out of a page, with a sentence that says so


def estimates_figure(ident: str, points: Sequence[Estimate], axis: str) -> Markup | None:
    """One row for each number: the interval where there is one, and a dot; None without numbers."""
    rows = tuple(ForestRow(one.name, one.value, one.ends) for one in points)
    return _rows_figure(ident, f"Estimates: {axis}", rows, axis) if rows else None


def _rows_figure(ident: str, title: str, rows: Sequence["ForestRow"], axis: str, *, ratio: bool = False) -> Markup:
    shown = rows[:MOST_INTERVALS]
    frame = charts.DrawingArea(width=460, height=_ROW * len(shown) + 54, left=180, top=6, bottom=48)
    parts, description = _forest(frame, shown, axis, ratio=ratio)
    return charts.svg(frame, ident, title, description, parts)


def _span(x: charts.Axis, ends: tuple[float, float], at: float, kind: str) -> Markup:
    return charts.path(f"M{x.at(ends[0]):.1f} {at:.1f}H{x.at(ends[1]):.1f}", kind)


def _short(name: str) -> str:
    """Both ends of a long name: the column before, the category, class or component behind."""
    half = (_LONGEST_NAME - 1) // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half + 1]}…{name[-half:]}"


class ForestRow(NamedTuple):
    """A coefficient in a forest plot: an effect, its interval, and how wide that would be without privacy."""

    name: str
    effect: float
    outer: tuple[float, float] | None
    inner: tuple[float, float] | None = None
    prior_dominated: bool = False


def forest_rows(lines: Sequence[Line], *, ratio: bool) -> tuple[ForestRow, ...]:
    """All coefficients with intervals but intercepts; ratios on their own scale, numbers for a round step of units."""
    rows = []
    for line in lines:
        if line.name.split(" [")[0] == INTERCEPT or line.low is None or line.high is None:
            continue
        shrunk = None if line.widened is None or math.isinf(line.widened) else 1.0 / (1.0 + line.widened)
        ends = [line.estimate, line.low, line.high]
        if shrunk is not None:
            ends += [line.estimate + shrunk * (end - line.estimate) for end in (line.low, line.high)]
        middle, *rest = (math.exp(min(end * line.step, 700.0)) if ratio else end * line.step for end in ends)
        name = line.name if line.step == 1.0 else f"{line.name}, per {line.step:g}"
        inner = (rest[2], rest[3]) if shrunk is not None else None
        rows.append(ForestRow(name, middle, (rest[0], rest[1]), inner, line.prior_dominated))
    return tuple(rows)


def forest_plot(ident: str, summary: "Inference", target: str = "") -> Markup | None:
    """The forest plot of a page; None where no coefficient has an interval."""
    rows, (title, axis) = forest_rows(summary.lines, ratio=bool(summary.ratio)), _forest_words(summary, target)
    return _rows_figure(ident, title, rows, axis, ratio=bool(summary.ratio)) if rows else None


def forest_figure(summary: "Inference", target: str = "") -> str:
    """The figure of `sordino show --plot`, as SVG text: with numbers beside the intervals."""
    rows, (heading, axis) = forest_rows(summary.lines, ratio=bool(summary.ratio)), _forest_words(summary, target)
    rows = rows[:MOST_INTERVALS]
    left = 30 + 7.5 * max([len(_short(row.name)) for row in rows] or [10])
    title = textwrap.wrap(summary.title, int((left + 520) / 7))  # under which guarantee for whom is not to be cut off
    more = 18 * (len(title) - 1)
    height = 26 * max(len(rows), 1) + 176 + more
    frame = charts.DrawingArea(width=left + 560, height=height, left=left, right=200, top=74 + more, bottom=102)
    parts, description = _forest(frame, rows, axis, ratio=bool(summary.ratio), row=26.0)
    below, right = frame.up[0], frame.across[1] + 14
    parts = [
        charts.path(f"M0 0H{frame.width:g}V{frame.height:g}H0Z", "paper"),
        charts.text(24, 30, heading, "heading"),
        *(charts.text(24, 52 + 18 * place, words, "subtitle") for place, words in enumerate(title)),
        *parts,
        *(charts.text(right, frame.top + 26 * (place + 0.5) + 4, _numbers(row)) for place, row in enumerate(rows)),
        charts.text(24, below + 66, FOREST, "note"),
        charts.text(24, below + 86, STEPS, "note"),
    ]
    return f"{charts.svg(frame, 'forest', heading, description, parts, charts.SHEET + FOREST_SHEET)}\n"


def _forest_words(summary: "Inference", target: str) -> tuple[str, str]:
    """Title and axis of a forest plot."""
    if summary.ratio:
        return f"{summary.ratio.capitalize()}s with {summary.intervals}s", f"{summary.ratio} (logarithmic)"
    return f"Effects with {summary.intervals}s", f"effect on {target or 'the target'}"


def _numbers(row: ForestRow) -> str:
    return figure(row.effect) if row.outer is None else f"{figure(row.effect)} ({interval(*row.outer)})"


def _forest(
    frame: charts.DrawingArea, rows: Sequence[ForestRow], axis: str, *, ratio: bool, row: float = _ROW
) -> tuple[list[Markup], str]:
    """Axis, reference line and rows; and the same in words."""
    none = 1.0 if ratio else 0.0
    ends = [end for one in rows for end in (one.outer or (one.effect,))]
    x = charts.Axis.over([none, *ends] if ratio or min(ends) < 0.0 else ends, *frame.across, logarithmic=ratio)
    parts = [*charts.horizontal_axis(frame, x, axis)]
    if x.low <= none <= x.high:
        parts.append(charts.path(f"M{x.at(none):.1f} {frame.top:g}V{frame.up[0]:g}", "zero"))
    words = []
    for place, one in enumerate(rows):
        at = frame.top + row * (place + 0.5)
        said = f"{one.name}: {_numbers(one)}" + (", prior-dominated" if one.prior_dominated else "")
        words.append(said)
        marks = [] if one.outer is None else [_span(x, one.outer, at, "outer")]
        if one.inner is not None and not one.prior_dominated:
            marks.append(_span(x, one.inner, at, "inner"))
        marks.append(charts.circle(x.at(one.effect), at, 4.2, "hollow" if one.prior_dominated else "mean"))
        label = charts.text(frame.left - 8, at + 4, _short(one.name), "name", "end")
        parts += [charts.grouped(one.name, [label]), charts.grouped(said, marks)]
    return parts, ". ".join(words)


def shares_bar(line: Line) -> Markup | None:
    """A small bar: which shares of a width are sampling, privacy and prior."""
    if line.shares is None:
        return None
    at, parts, named = 0.0, [], list(zip(("sampling", "privacy", "prior"), line.shares, strict=True))
    for kind, share in named:
        parts.append(charts.path(f"M{at:.1f} 2h{_BAR * share:.1f}v10H{at:.1f}Z", f"part {kind}"))
        at += _BAR * share
    words = ", ".join(f"{kind} {percent(share)}" for kind, share in named)
    head = Markup('<svg class="shares" viewBox="0 0 {:g} 14" role="img" aria-label="{}">').format(_BAR, words)
    return head + Markup("").join(parts) + Markup("</svg>")


def bar_figure(ident: str, epsilon: float, audit: LowerBound | None) -> Markup:
    """Where epsilon lies: at least the lower bound, at most the certificate."""
    lower = None if audit is None else audit.epsilon
    frame = charts.DrawingArea(width=460, height=104, left=14, right=14, top=30, bottom=36)
    finite = [value for value in (epsilon, lower) if value is not None and math.isfinite(value)]
    x = charts.Axis.over([0.0, max([*finite, 1e-9]) * 1.05], *frame.across, logarithmic=False)
    floor, top = frame.up[0] - 8, frame.top + 4
    end = x.at(epsilon) if math.isfinite(epsilon) else frame.across[1]
    begin = x.at(lower) if lower is not None and math.isfinite(lower) else x.at(0.0)
    parts = [*charts.horizontal_axis(frame, x, "", grid=False)]
    parts.append(charts.path(f"M{x.at(0.0):.1f} {top:g}H{begin:.1f}V{floor:g}H{x.at(0.0):.1f}Z", "excluded"))
    low, high = sorted((begin, end))
    parts.append(charts.path(f"M{low:.1f} {top:g}H{high:.1f}V{floor:g}H{low:.1f}Z", "band"))
    words = []
    if math.isfinite(epsilon):
        parts += [charts.path(f"M{end:.1f} {top - 6:g}V{floor + 4:g}", "line certified")]
        side = "end" if end > frame.width - 90 else "start" if end < 90 else "middle"
        parts += [charts.text(end, top - 11, f"certified ≤ {show_up(epsilon)}", "certified", side)]
        words.append(f"certified at most {show_up(epsilon)}")
    if lower is not None and math.isfinite(lower):
        parts += [charts.path(f"M{begin:.1f} {top - 2:g}V{floor + 8:g}", "line audited")]
        source = _SOURCES[audit.examined] if audit is not None else ""
        words.append(f"{source} at least {show_down(lower)}")
        # Inside the bar, on whichever side of the mark has room.
        where, side = (begin - 6, "end") if begin - x.at(0.0) > 120 else (begin + 6, "start")
        parts.append(charts.text(where, (top + floor) / 2 + 4, f"{source} ≥ {show_down(lower)}", "audited", side))
    return charts.svg(frame, ident, "Where epsilon lies", "; ".join(words) or "nothing is known", parts)


def _wide(values: Sequence[float]) -> bool:
    """Whether values are so far apart that their axis is logarithmic."""
    positive = [value for value in values if math.isfinite(value) and value > 0]
    return bool(positive) and max(positive) > _WIDE * min(positive)


@dataclass(frozen=True)
class StepCurves:
    """What every applicable theorem says of a run stopped early, at each of `steps`; infinite where it says nothing.

    `lower` has the lower bounds that are known, by numbers of steps.
    """

    spec: Spec
    delta: float
    steps: tuple[int, ...]
    epsilons: tuple[tuple[str, tuple[float, ...]], ...]
    lower: tuple[tuple[float, float], ...] = ()

    @property
    def crossings(self) -> tuple[tuple[int, str, str], ...]:
        """At the latest from the number of steps on, the tightest theorem is the second and not the first named."""
        crossings, best, lines = [], "", dict(self.epsilons)
        for place, steps in enumerate(self.steps):
            column = {name: line[place] for name, line in lines.items()}
            least = min(column.values(), default=math.inf)
            if math.isinf(least):
                continue
            # Where several are as tight, the plainest is named first: composition before anything built on it.
            leader = min(name for name, value in column.items() if value <= least * (1 + _TIE))
            if best and column[leader] < column[best] * (1 - _TIE):
                crossings.append((steps, best, leader))
                best = leader
            best = best or leader
        return tuple(crossings)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which theorem is the tightest where, in words."""
        if not self.epsilons:
            return ("No theorem gives a finite epsilon for this run.",)
        if not (crossings := self.crossings):
            return (f"{self.epsilons[0][0]} is the tightest, or as tight as any, at every number of steps.",)
        return tuple(f"{after} beats {before} from step {steps} at the latest." for steps, before, after in crossings)

    @property
    def counted(self) -> str:
        return "steps of the last part" if isinstance(self.spec.algorithm, Composite) else "steps"

    @property
    def envelope(self) -> tuple[tuple[float, float], ...]:
        """The tightest certified epsilon at every number of steps."""
        columns = zip(*(line for _, line in self.epsilons), strict=True)
        return tuple((float(steps), min(column)) for steps, column in zip(self.steps, columns, strict=False))


def at_steps(spec: Spec, steps: int) -> Spec:
    """The same run stopped after `steps` steps of its last part; a schedule given as a list is cut."""
    document = spec.to_dict()
    algorithm = document["algorithm"]
    if isinstance(spec.algorithm, Composite):
        algorithm = algorithm["parts"][-1]["algorithm"]
    for section in (algorithm, algorithm.get("noise", {}), algorithm.get("options", {})):
        for name, value in section.items():
            if isinstance(value, dict) and value.get("kind") == "list":
                section[name] = value | {"values": value["values"][:steps]}
    algorithm["rounds" if "rounds" in algorithm else "steps"] = steps
    return Spec.from_dict(document)


def steps_curves(spec: Spec, delta: float, progress: Callable[[], object] = lambda: None) -> StepCurves:
    """Ask every theorem about the run stopped at 20 or 40 step counts, and find where the tightest one changes."""
    delta = check_delta(delta)
    # The first step count the run can be stopped at, its last, and the steps of an epoch where epochs matter.
    algorithm, problem = spec.algorithm, spec.problem
    if isinstance(algorithm, Composite):
        algorithm, problem = algorithm.parts[-1].algorithm, algorithm.parts[-1].problem
    if isinstance(algorithm, NoisedSums):
        first, last, epoch = 1, algorithm.rounds, algorithm.batches_per_epoch
    elif isinstance(algorithm, NoisyGradient):
        first, last = algorithm.keep.burn_in + 1 if isinstance(algorithm.keep, Thinning) else 1, algorithm.steps
        epoch = 1 if problem is None or problem.n is None else algorithm.batches_per_epoch(problem.n)
    else:
        raise InputError("This run has no steps. Omit --plot.")
    unit = epoch if scheme_of(algorithm) in _PASSES else 1
    asked = [theorem for theorem in theorems() if theorem.failure(spec) is None]
    answers = [evaluate(theorem, at_steps(spec, first)) for theorem in asked]
    slow = any(isinstance(answer, Bound) and isinstance(answer.guarantee, LossDistribution) for answer in answers)
    # Evenly in their logarithm; beyond the first epoch, whole epochs.
    spaced = np.geomspace(first, last, FEW_POINTS if slow else POINTS).round().astype(int).tolist()
    whole = {steps if steps < unit else unit * round(steps / unit) for steps in spaced}
    counts = sorted({steps for steps in whole if first <= steps <= last} | {last})
    table: dict[str, list[float]] = {theorem.id: [] for theorem in asked}
    for steps in counts:
        run = at_steps(spec, steps)
        for theorem in asked:
            answer = evaluate(theorem, run)
            table[theorem.id].append(answer.guarantee.epsilon(delta) if isinstance(answer, Bound) else math.inf)
        progress()
    curves = {name: tuple(values) for name, values in table.items() if any(map(math.isfinite, values))}
    final = sorted(curves.items(), key=lambda named: (named[1][-1], named[0]))
    return StepCurves(spec, delta, tuple(counts), tuple(final))


def step_bounds(spec: Spec, delta: float, patience: float = PATIENCE) -> StepCurves | str:
    """The curves with lower bounds, or why there are none; nothing of a run that has no steps to stop at."""
    end = time.monotonic() + patience

    def check() -> None:
        if time.monotonic() > end:
            raise TimeoutError

    try:
        curves = steps_curves(spec, delta, check)
    except InputError:
        return ""
    except TimeoutError:
        return "Curves against steps take too long for this page; sordino certify --plot draws them."
    if len(curves.steps) == 1:
        return ""
    if not curves.epsilons:
        return "No theorem gives a finite epsilon at any number of steps."
    # Exact lower bounds on the extremal instance of the spec's constants; no data are read. The last step count first,
    # then a few, then those between: whenever time runs out, what is there spans the run.
    epsilons, steps = dict[int, float](), curves.steps
    order = dict.fromkeys((steps[-1], *steps[::-8], *steps[::-4], *steps[::-2], *steps))
    with suppress(InputError):
        for count in order if spec.instance is None else ():
            if time.monotonic() > end:
                break
            lower = audit(at_steps(spec, count), "exact", AuditOptions(delta=delta))
            epsilons[count] = lower.epsilon if math.isfinite(lower.epsilon) else math.nan
    return replace(curves, lower=tuple((float(count), epsilons[count]) for count in sorted(epsilons)))


def steps_chart(ident: str, curves: StepCurves, most: int | None = _MOST_LINES) -> charts.Chart:
    """The tightest certificate and the exact lower bound against steps; behind them at most so many other theorems."""
    tightest = tuple(value for _, value in curves.envelope)
    lines = [charts.Series("certified: the tightest at each step", curves.envelope, charts.CERTIFIED)]
    if curves.lower:
        name = "lower bound of the description (exact, worst case)"
        lines.append(charts.Series(name, curves.lower, charts.AUDITED))
    # A theorem that is the tightest everywhere is the certified line itself.
    ceiling = math.inf if most is None else _TALLEST * max(filter(math.isfinite, tightest))
    shown = ((name, [one if one <= ceiling else math.inf for one in line]) for name, line in curves.epsilons)
    drawable = [(name, line) for name, line in shown if any(map(math.isfinite, line))]
    drawable = drawable if most is None else [(name, line) for name, line in drawable if tuple(line) != tightest]
    others = [charts.Series(name, tuple(zip(map(float, curves.steps), line, strict=True))) for name, line in drawable]
    title, y_title = "Epsilon against the number of steps", f"epsilon at delta {charts.label(curves.delta)}"
    log_x, log_y = _wide(curves.steps), _wide([value for _, value in (*curves.envelope, *curves.lower)])
    drawn = (curves.counted, y_title, (*lines, *others[:most]))
    return charts.Chart(ident, title, *drawn, log_x=log_x, log_y=log_y, whole_x=True, remarks=curves.remarks)


def widths_figure(made: "Expectation") -> str:
    """The figure of `sordino plan --plot`, as SVG text: expected widths against epsilon, where a fit is not refused."""
    shown = made.names[:_MOST_LINES]
    kept = [one for one in made.curve if not one.refused]
    widths = {name: tuple((one.plan.epsilon, one.line(name).width) for one in kept) for name in shown}
    lines = tuple(charts.Series(name, points) for name, points in widths.items())
    more = f" The first {len(shown)} of {len(made.names)} coefficients." if len(made.names) > len(shown) else ""
    refused = [f"{one.plan.epsilon:g}" for one in made.curve if one.refused]
    too_small = f" Too small a budget: epsilon {', '.join(refused)}." if refused else ""
    plan, title = made.plan, f"Expected widths of {100 * made.level:g} % intervals"
    about = f"{plan.family}, {plan.records:,} records, delta {plan.delta:g}, {plan.relation.value}; no row was read"
    remark = f"Expectations for columns of typical spread.{more}{too_small}"
    named = ("epsilon (logarithmic)", "width, in the table's units (logarithmic)")
    drawn = charts.Chart("widths", title, *named, lines, log_x=True, log_y=True, subtitle=about, remarks=(remark,))
    return charts.standalone(drawn)


def steps_figure(curves: StepCurves) -> str:
    """The figure of `sordino certify --plot`, as SVG text: every theorem against steps, with the crossings in words."""
    spec, drawn = curves.spec, steps_chart("steps", curves, most=None)
    about = f"relation {spec.relation}, view {spec.view}, delta {curves.delta:g}; smaller is more private"
    return charts.standalone(replace(drawn, subtitle=about))


def trade_off(ident: str, bound: Bound | None, lower: LowerBound | None) -> charts.Chart:
    """Errors of the tests that an audit knows, above the errors that the certificate allows."""
    lines = []
    if bound is not None:
        limits = np.asarray(bound.guarantee.beta(_SIZES)).tolist()
        certified = tuple(zip(_SIZES.tolist(), limits, strict=True))
        lines.append(charts.Series(f"certified limit of all tests: {bound.theorem}", certified, charts.CERTIFIED))
    if lower is not None and lower.curve:
        points = sorted((point.false_positive, point.false_negative) for point in lower.curve)
        described = lower.examined is Examined.DESCRIPTION
        name = "best tests of the description" if described else f"tests the {lower.method} audit found"
        lines.append(charts.Series(name, tuple(points), charts.AUDITED))
    lines.append(charts.Series("blind guessing", ((0.0, 1.0), (1.0, 0.0)), charts.REFERENCE))
    title = "How well can two neighbours be distinguished?"
    return charts.Chart(ident, title, "false positives", "false negatives", tuple(lines))


def trade_off_figure(lower: LowerBound, bound: Bound | None) -> str:
    """The figure of `sordino audit --plot`, as SVG text: the trade-off curves."""
    source = "the description has" if lower.examined is Examined.DESCRIPTION else f"the {lower.method} audit finds"
    lowest = f"At delta {lower.delta:g}: {source} epsilon at least {show_down(lower.epsilon)}"
    certified = "; no theorem gives a finite epsilon."
    if bound is not None:
        certified = f", certified at most {show_up(bound.guarantee.epsilon(lower.delta))}."
    subtitle = f"relation {lower.relation}, view {lower.view}; closer to the lower left corner is less private"
    drawn = trade_off("trade-off", bound, lower)
    return charts.standalone(replace(drawn, subtitle=subtitle, remarks=(lowest + certified,)))
