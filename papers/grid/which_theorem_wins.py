"""Which theorem is the tightest where, on the published grid, and never looser than another accountant."""

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from papers.framework.figure import COLOURS, PANELS, Figure
from papers.framework.item import Cell, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.grid.answers import DELTA, TIE, Answered, answered, grid, quick_grid
from sordino.accounting.evaluate import theorems
from sordino.core.bound import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


_STATUS_WORDS = {Status.AS_STATED: "as its paper states it", Status.CORRECTED: "corrected", Status.OURS: "ours"}
_STATUS_COLOURS = dict(zip(_STATUS_WORDS, (COLOURS[0], COLOURS[3], COLOURS[1]), strict=True))
_SCHEME_MARKERS = {"full": "o", "poisson": "^", "without-replacement": "D", "random-allocation": "v"}


@item(
    name="which-theorem-wins",
    paper=None,
    reproduces="Our own comparison: every registered theorem and dp-accounting on a grid of runs",
)
def which_theorem_wins(options: Options) -> Outcome:
    """Answer every run of the grid, and count."""
    found = tuple(answered(quick_grid() if options.quick else grid()))
    smaller = [one for one in found if one.peer_is_smaller]
    compared = [one for one in found if one.peer is not None]
    bounds = sum(len(one.found.bounds) for one in found)
    return Outcome(
        (_wins(found), _cells(found), _peers(compared), _runs(found)),
        (Figure("winners", lambda canvas: _draw(canvas, found), _CAPTION, *PANELS),),
        _verdict(found, smaller, compared, bounds),
        _NOTES,
        (
            ("runs", len(found)),
            ("delta", DELTA),
            ("delta of runs with stable noise", 0.1),
            ("relative difference that counts as a tie", TIE),
            ("theorems registered", len(theorems())),
        ),
    )


_CAPTION = (
    "Left: how many runs of the grid, examples left out, each theorem certifies with the smallest epsilon (ties go to "
    "the plainest name); the 14 most frequent. "
    "Right: our smallest epsilon against dp-accounting's on the same steps; below the line is tighter."
)
_NOTES = (
    "dp-accounting describes steps, not chains: it answers for the view all-iterates, which bounds the last iterate "
    "too. It sees neither convexity nor projection nor that only the last iterate leaves; that is the gain here.",
    "dp-accounting is the better of its loss-distribution accountant (spacing 1e-4 or 1e-3, pessimistic) and its Rényi "
    "accountant. Under replace-one its Rényi accountant does not double a Gaussian's sensitivity, so multipliers were "
    "given relative to the relation's own sensitivity; without that it would state an invalid, smaller epsilon.",
    "Passes (cyclic, shuffled) have no event of their own there: they are given as one Gaussian use an epoch. Claiming "
    "subsampling amplification for them would be smaller and not valid.",
    "On Poisson batches both compose the same loss distributions and agree to a few parts in ten thousand; ours is the "
    "upper end of a bracket of relative width at most 1e-3, rounding included, hence a ratio just below 1.",
    "The runs with stable noise have a total variation below their delta 0.1, so their epsilon is 0; at alpha 2, "
    "which is Gaussian noise, several theorems say so and all count as tied.",
    "A run that no theorem certifies with a finite epsilon at its delta has no winner and is listed in the table runs.",
    "The runs of kind example are the files of examples/specs: single mechanisms, selections, matrices, composites and "
    "one run at least of every theorem. A theorem that applies to these alone has few to beat. dp-accounting is "
    "not asked about them; bench/accounting.py compares single mechanisms.",
    "Random allocation and passes of single records are to dp-accounting one Gaussian use a pass, which is valid and "
    "does not see that the place is hidden. For truncated Poisson batches and draws with replacement it has no event.",
)


def _verdict(found: tuple[Answered, ...], smaller: list[Answered], compared: list[Answered], bounds: int) -> Verdict:
    if smaller:
        worst = min(smaller, key=lambda one: one.peer[1] / one.found.epsilon if one.peer else math.inf)
        return Verdict(
            VerdictKind.OWN,
            f"On {len(smaller)} of {len(compared)} runs the peer's epsilon is below ours by more than {TIE:g}, most on "
            f"{worst.run.scheme} batches with {worst.run.steps} steps.",
        )
    return Verdict(
        VerdictKind.OWN,
        f"On {len(found)} runs and {bounds} bounds the certified epsilon is the smallest any registered theorem gives, "
        f"and on none of the {len(compared)} runs that dp-accounting can describe is its epsilon smaller by more than "
        f"{100 * TIE:g} %.",
    )


def _wins(found: tuple[Answered, ...]) -> Table:
    first = Counter(one.winners[0] for one in found if one.winners)
    tied = Counter(name for one in found for name in one.winners)
    applied = Counter(bound.theorem for one in found for bound, _ in one.found.bounds)
    rows = tuple(
        (theorem.id, _STATUS_WORDS[theorem.status], applied[theorem.id], tied[theorem.id], first[theorem.id])
        for theorem in sorted(theorems(), key=lambda theorem: (-tied[theorem.id], theorem.id))
        if applied[theorem.id]
    )
    columns = ("theorem", "status", "runs it applies to", "tightest or tied", "tightest, ties to the plainest")
    return Table("wins", columns, rows, "How often each theorem applies, and how often nothing is smaller.")


def _cells(found: tuple[Answered, ...]) -> Table:
    """Where: one row for each kind, scheme, relation, view, problem and projection."""
    groups: dict[tuple[str, ...], list[Answered]] = defaultdict(list)
    for one in found:
        run, spec = one.run, one.run.spec
        key = (run.kind, run.scheme, spec.relation.value, spec.view.value, run.problem, run.projection)
        groups[key].append(one)
    rows: list[tuple[Cell, ...]] = []
    for key, members in groups.items():
        winners = Counter(one.winners[0] if one.winners else "none is finite" for one in members)
        words = ", ".join(f"{name} ({count})" for name, count in winners.most_common())
        gains = [one.peer[1] / one.found.epsilon for one in members if one.peer is not None and one.found.epsilon > 0]
        rows.append((*key, words, max(gains) if gains else None))
    columns = (
        "kind",
        "batches",
        "relation",
        "view",
        "problem",
        "projection",
        "tightest (runs)",
        "peer / ours, largest",
    )
    return Table("where", columns, tuple(rows), "Which theorem is the tightest where, over noise, steps and rates.")


def _peers(compared: list[Answered]) -> Table:
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in compared:
        if one.peer is not None and one.found.epsilon > 0:
            groups[one.run.scheme, one.run.spec.view.value].append(one.peer[1] / one.found.epsilon)
    rows = tuple(
        (*key, len(ratios), min(ratios), sorted(ratios)[len(ratios) // 2], max(ratios))
        for key, ratios in sorted(groups.items())
    )
    columns = ("batches", "view", "runs", "smallest", "median", "largest")
    return Table("peer", columns, rows, "dp-accounting's epsilon over ours; 1 is equal, more means ours is tighter.")


def _runs(found: tuple[Answered, ...]) -> Table:
    rows = tuple(
        (
            one.run.kind,
            one.run.scheme,
            one.run.spec.relation.value,
            one.run.spec.view.value,
            one.run.problem,
            one.run.projection,
            one.run.noise,
            one.run.steps,
            one.run.rate,
            Upper(one.found.epsilon),
            one.winners[0] if one.winners else None,
            len(one.found.bounds),
            None if one.peer is None else one.peer[0],
            None if one.peer is None else one.peer[1],
        )
        for one in found
    )
    columns = (
        *("kind", "batches", "relation", "view", "problem", "projection", "noise", "steps", "rate"),
        *("epsilon", "theorem", "bounds", "peer", "peer's epsilon"),
    )
    return Table("runs", columns, rows, "Every run of the grid.", in_readme=False)


def _counted(found: tuple[Answered, ...]) -> list[tuple[str, int]]:
    """Theorems by how often they are the tightest; examples are left out, where many have nothing beside them."""
    return Counter(one.winners[0] for one in found if one.winners and one.run.kind != "example").most_common()


# Theorems with a bar; the table wins has all.
_BARS = 14


def _draw(canvas: "Canvas", found: tuple[Answered, ...]) -> None:
    left, right = canvas.subplots(1, 2, width_ratios=(1, 1))
    status = {theorem.id: theorem.status for theorem in theorems()}
    counted = _counted(found)[:_BARS]
    seen: set[Status] = set()
    for place, (name, count) in enumerate(counted):
        kind = status[name]
        left.barh(place, count, color=_STATUS_COLOURS[kind], label=None if kind in seen else _STATUS_WORDS[kind])
        left.annotate(str(count), (count, place), (3, 0), textcoords="offset points", va="center", fontsize=9.5)
        seen.add(kind)
    left.set_yticks(range(len(counted)), [name for name, _ in counted])
    left.set(xlabel=f"runs of {sum(one.run.kind != 'example' for one in found)}", ylim=(len(counted) - 0.4, -0.6))
    left.grid(visible=False, axis="y")
    left.legend(loc="lower right")
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in found:
        if one.peer is not None and one.found.epsilon > 0:
            scheme = one.run.scheme if one.run.scheme in _SCHEME_MARKERS else "passes"
            groups[scheme].append((one.peer[1], one.found.epsilon))
    for place, (scheme, points) in enumerate(sorted(groups.items())):
        marker = _SCHEME_MARKERS.get(scheme, "s")
        right.plot(*zip(*points, strict=True), marker, color=COLOURS[place], alpha=0.55, markersize=4.5, label=scheme)
    ends = [value for points in groups.values() for pair in points for value in pair]
    right.plot([min(ends), max(ends)], [min(ends), max(ends)], color="#4d4d4d", linewidth=1.0, label="equal")
    right.set(xscale="log", yscale="log", xlabel="dp-accounting, epsilon", ylabel="Sordino, epsilon")
    right.legend(loc="upper left")
