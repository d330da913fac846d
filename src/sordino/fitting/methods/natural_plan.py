"""What the natural method of networks asks for, from public numbers: settings, the network's size, parts and noise.

How large the network is: with D parameters, n records and a privacy parameter mu, noise adds about (D / (n mu))^2 of
the residual variance to the error, so D is a share of n mu. The settings were chosen on drawn tables
(`bench/network_settings.py`), never on a real one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sordino.core.arrays import Array
from sordino.core.spec import ListSchedule, Spec
from sordino.data import Category
from sordino.fitting.methods.base import counts_spec, multiplier, sums_over_all, target_bound
from sordino.fitting.problem import FitProblem
from sordino.mechanisms.statistics.second_moments import StatisticsOptions, StatisticsStack, statistics_spec
from sordino.models.families.networks import SkipClassification, SkipNetwork, SkipRegression

_WIDTH = math.sqrt(3.0)  # a uniform number between its bounds, times this, has variance 1
_SIZES, _CLASSES = "sizes of residuals, counted", "records of each class, counted"
# Where hidden units can see every column only if there are fewer of them than this, they see numbers alone.
_FEW_UNITS = 4


@dataclass(frozen=True)
class NaturalSettings:
    """What was chosen on drawn tables.

    `efolds` is the sum of all step sizes, which fall in equal steps to a share `end` of the first. `share` is that of
    parameters in n mu, `kept` that of the rounds whose points are averaged.
    """

    share: float
    stages: int
    clip: float
    end: float
    damping: float
    whitening: float
    cross: float
    output: float
    kept: float
    shrunk: bool
    rounds: int = 150
    efolds: float = 5.0
    momentum: float = 0.5
    start: float = 0.3
    most: int = 240
    cut: float = 4.0
    share_of_scale: float = 0.01
    share_of_check: float = 0.04
    share_of_classes: float = 0.03

    @property
    def step_sizes(self) -> Array:
        first = 2.0 * self.efolds / self.rounds / (1.0 + self.end)
        return np.linspace(first, self.end * first, self.rounds)

    @property
    def rounds_of_stages(self) -> tuple[int, ...]:
        return tuple(np.diff(np.arange(self.stages + 1) * self.rounds // self.stages).tolist())


_NUMBERS = NaturalSettings(
    share=0.1, stages=3, clip=0.15, end=0.15, damping=0.02, whitening=0.1, cross=0.6, output=0.5, kept=0.4, shrunk=True
)
_LABELS = NaturalSettings(
    share=0.03, stages=1, clip=0.8, end=0.1, damping=0.03, whitening=0.08, cross=0.3, output=0.3, kept=0.5, shrunk=False
)
SETTINGS = {"network-regression": _NUMBERS, "network-classification": _LABELS}


# Tables of numbers with fewer records times mu get more damping of the metric and fewer units.
# Chosen on the two shapes of `papers/vinaroz_park/sets.py` that have so few, 24 tables of each.
_FEW, _SHARE_OF_FEW, _DAMPING_OF_FEW = 600.0, 0.05, 0.15


def settings_for(problem: FitProblem, settings: NaturalSettings) -> NaturalSettings:
    """The settings of a task as they are used with so many records and such a budget."""
    if problem.classes is not None or problem.records * problem.mu >= _FEW:
        return settings
    return replace(settings, share=min(settings.share, _SHARE_OF_FEW), damping=max(settings.damping, _DAMPING_OF_FEW))


@dataclass(frozen=True, eq=False)
class Columns:
    """Which encoded columns the network reads, by a public map of (x, 1); hidden units see the first ones."""

    first: Array
    seen: int
    squares: float

    @property
    def count(self) -> int:
        return self.first.shape[1]


def columns_read(problem: FitProblem, fewest: int = _FEW_UNITS, room: float = math.inf) -> Columns:
    """Numbers first; `room` is for parameters, and where it holds too few units that see all, they see numbers."""
    schema, numbers, others = problem.schema, list[tuple[int, float]](), list[int]()
    squares = 0.0
    for feature, block in schema.blocks:
        if isinstance(feature.kind, Category):
            others += range(block.start, block.stop)
            squares += _WIDTH**2
        else:
            numbers += [(place, _WIDTH / feature.kind.block_norm) for place in range(block.start, block.stop)]
            squares += block.stop - block.start
    scaled = numbers + [(place, _WIDTH) for place in others]
    first = np.zeros((problem.features + 1, len(scaled)))
    for column, (place, scale) in enumerate(scaled):
        first[place, column] = scale
    outputs = problem.outputs
    see_all = not numbers or (room - outputs * (1 + len(scaled))) / (len(scaled) + 1 + outputs) >= fewest
    return Columns(first, len(scaled) if see_all else len(numbers), squares)


def room_for_parameters(problem: FitProblem, settings: NaturalSettings) -> float:
    """For parameters: a share of n mu, halved where a record counts twice less, and no more than time allows."""
    return min(settings.share * problem.records * problem.mu, settings.most)


def network_of(problem: FitProblem, settings: NaturalSettings, variance: float = 1.0) -> SkipNetwork:
    """The network for so many records of a public shape; its size as asked for, or as noise allows."""
    room, asked, outputs = room_for_parameters(problem, settings), problem.settings["hidden"], problem.outputs
    columns = columns_read(problem, room=room)
    units = math.floor((room - outputs * (1 + columns.count)) / (columns.seen + 1 + outputs))
    hidden = max(1, units) if asked is None else asked[0]
    if problem.classes is None:
        return SkipRegression(hidden, columns.seen, settings.cut, noise_precision=1.0 / variance)
    return SkipClassification(hidden, columns.seen, settings.cut, classes=problem.classes)


def sums_options(problem: FitProblem, settings: NaturalSettings, length: float) -> StatisticsOptions:
    """How the products of rows are summed, for rows of at most this length."""
    bound = target_bound(problem) if problem.classes is None else 1.0
    cross = settings.cross if problem.outputs == 1 else 0.01  # several classes are no number
    return StatisticsOptions(length, bound, stack=StatisticsStack(cross=cross, square=0.5 * cross))


def natural_specs(problem: FitProblem, settings: NaturalSettings) -> Iterator[Spec]:
    """All that is asked, in order: products twice, counts of classes or sizes before steps, and sizes in the end."""
    for _ in range(2):
        noise = multiplier(problem.mu * math.sqrt(settings.whitening / 2))
        options = sums_options(problem, settings, 1.0)
        yield statistics_spec(problem.records, noise, problem.relation, options, problem.delta)
    numbers = problem.classes is None
    counted = settings.stages * settings.share_of_scale + settings.share_of_check
    if not numbers:
        counted = settings.share_of_classes
        yield counts_spec(problem, _CLASSES, counted)
    mu = problem.mu * math.sqrt((1.0 - settings.whitening - counted) / settings.rounds)
    begin = 0
    for rounds in settings.rounds_of_stages:
        if numbers:
            yield counts_spec(problem, _SIZES, settings.share_of_scale)
        steps = ListSchedule(tuple(settings.step_sizes[begin : begin + rounds].tolist()))
        words = "natural gradients of a network with a linear part"
        yield sums_over_all(problem, words, rounds, 1.0, mu, step_size=steps)
        begin += rounds
    if numbers:
        yield counts_spec(problem, _SIZES, settings.share_of_check)


def natural_predicted(problem: FitProblem, settings: NaturalSettings) -> float:
    """The error over that of a constant: half the variance is explained, and noise adds what it does to a parameter."""
    size = network_of(problem, settings).dim(columns_read(problem).count)
    noise = (1.5 * problem.clips * size / (problem.records * problem.mu)) ** 2
    return min(1.5, math.sqrt(0.5 + noise))
