"""Sizes at which the accounting of records that take part by chance changes its way."""

from sordino.accounting.bounds.segments import places_in_passes
from tests.soundness import long_runs as runs
from tests.soundness.threshold import REVEALED, WINDOWED, Threshold, constant, patterns, period, steps

BY_CHANCE: tuple[Threshold, ...] = (
    Threshold(
        "accounting.bounds.revealed:MOST_PATTERNS",
        "patterns of a record's uses that are listed",
        patterns,
        REVEALED,
        (lambda: runs.drawn_anew(17, 1, 4, 0.8, 1.0), lambda: runs.reshuffled(50, 10, 0.9, 1.0)),
        (
            lambda: runs.drawn_anew(20, 1, 4, 0.8, 1.0),
            lambda: runs.drawn_anew(60, 1, 10, 1.0, 1.0),
            lambda: runs.reshuffled(70, 10, 0.9, 1.0),
            lambda: runs.reshuffled(74, 10, 1.0, 1.0),
        ),
    ),
    Threshold(
        "accounting.bounds.revealed:_MOST_LISTED_PASSES",
        "passes whose places are listed",
        lambda spec: steps(spec) / period(spec),
        REVEALED,
        (lambda: runs.reshuffled(38, 2, 0.9, 1.0),),
        (lambda: runs.reshuffled(44, 2, 0.9, 1.0), lambda: runs.reshuffled(45, 2, 1.0, 1.0)),
    ),
    Threshold(
        "accounting.bounds.revealed:_POSITIONS",
        "places of the last pass that are distinguished",
        period,
        REVEALED,
        (lambda: runs.reshuffled(400, 40, 0.98, 1.0),),
        (lambda: runs.reshuffled(600, 60, 0.98, 1.0), lambda: runs.reshuffled(630, 60, 0.99, 1.0)),
    ),
    Threshold(
        "accounting.bounds.revealed:_SINGLE",
        "steps before the window whose pushes are chosen one by one",
        lambda spec: steps(spec) - constant("accounting.bounds.revealed:_WINDOW"),
        REVEALED,
        (lambda: runs.drawn_anew(30, 1, 5, 0.9, 1.0),),
        (lambda: runs.drawn_anew(120, 1, 5, 0.95, 1.0), lambda: runs.drawn_anew(2000, 1, 100, 0.999, 1.0)),
    ),
    Threshold(
        "accounting.bounds.window:_FEW_STEPS",
        "steps before the window that are added one by one",
        steps,
        WINDOWED,
        (lambda: runs.drawn_anew(30, 1, 2, 0.9, 0.5), lambda: runs.poisson_drawn(30, 0.4, 3, 0.9, 2.0)),
        (
            lambda: runs.drawn_anew(400, 1, 2, 0.9999, 0.1),
            lambda: runs.poisson_drawn(400, 0.3, 5, 0.9999, 0.5),
            lambda: runs.poisson_drawn(300, 0.05, 40, 0.98, 2.0),
        ),
    ),
    Threshold(
        "accounting.bounds.window:_FEW_USES",
        "uses before the window that are added one by one",
        lambda spec: steps(spec) / period(spec),
        WINDOWED,
        (lambda: runs.drawn_anew(100, 1, 10, 0.98, 0.5),),
        (lambda: runs.drawn_anew(2000, 1, 10, 0.9999, 0.2),),
    ),
    Threshold(
        "accounting.bounds.window:_MOST_SINGLE",
        "steps before the window that are added one by one at any rate",
        steps,
        WINDOWED,
        (lambda: runs.drawn_anew(3000, 1, 1000, 0.999, 1.0),),
        (lambda: runs.drawn_anew(9000, 1, 1000, 0.99999, 1.0),),
        slow=True,
    ),
    Threshold(
        "accounting.bounds.segments:_MOST_STAGES",
        "passes whose places are distinguished in a chain with affine steps",
        lambda spec: steps(spec) / period(spec),
        ("shifted.affine",),
        (lambda: runs.reshuffled(3000, 2, 0.9999, 1.0),),
        (lambda: runs.reshuffled(4400, 2, 0.9999, 1.0),),
    ),
    Threshold(
        "accounting.theorems.kept_draws:_MOST_PLACES",
        "places of a reshuffled pass at which iterates are kept",
        lambda spec: places_in_passes(spec.algorithm.kept_iterates(spec.view), round(period(spec))),
        ("composition.kept-random", "shifted.affine"),
        (lambda: runs.cut_passes(2000, 101, 75),),
        (lambda: runs.cut_passes(15_001, 101, 150),),
        refused=True,
        slow=True,
    ),
)
