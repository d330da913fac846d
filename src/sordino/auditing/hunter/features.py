"""What can be seen of an output, and the event that tells two samples of outputs apart best.

A feature is a number or a text made from an output: a value, a length, a type, the message of an exception, the lowest
bit of a float, a direction in which two samples differ, a value among the outputs of one type alone. Each is also a
line of Python, so that an event found here can be counted by a script that needs nothing of Sordino; a test holds the
two against each other.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.auditing.hunter.processes import CallOutput

Values = NDArray[np.float64]
MOST_NUMBERS, MOST_PAIRED, MOST_CATEGORIES, MOST_CUTS = 24, 5, 400, 200
# Types of outputs that are looked into one by one, values of each, and values that come up again and again.
MOST_SHAPES, MOST_INSIDE, MOST_ATOMS = 6, 3, 8
OFTEN = 0.01
ZERO_BIT = 2000.0  # the "lowest bit" of zero, above that of any other number


@dataclass(frozen=True)
class OutputFeature:
    """Something about an output.

    Attributes:
        words: for people.
        code: a Python expression of `shape`, `numbers` and `texts`; None where the output has no such thing.
        kind: how it is computed for a whole sample.
        places: which numbers it is about.
        weights: constants chosen beforehand.
        given: the type of output that it is about; empty for all.
    """

    words: str
    code: str
    kind: str
    places: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    given: str = ""


class Sample:
    """Outputs of one table, with their numbers as a matrix that is NaN where an output has fewer."""

    def __init__(self, outputs: Sequence[CallOutput]) -> None:
        self.outputs = outputs
        self.width = min(max((len(output.numbers) for output in outputs), default=0), 512)
        self.numbers = np.full((len(outputs), self.width), np.nan)
        self.present = np.zeros((len(outputs), self.width), bool)
        for row, output in enumerate(outputs):
            given = output.numbers[: self.width]
            self.numbers[row, : len(given)] = given
            self.present[row, : len(given)] = True

    def __len__(self) -> int:
        return len(self.outputs)

    def half(self, which: int) -> "Sample":
        """Every other output."""
        return Sample(self.outputs[which::2])


def values_of(feature: OutputFeature, sample: Sample) -> Values:
    """A numeric feature of every output; NaN where an output has none."""
    if feature.given:
        of_all = values_of(replace(feature, given=""), sample)
        return np.where([output.shape == feature.given for output in sample.outputs], of_all, np.nan)
    if any(place >= sample.width for place in feature.places):
        return np.full(len(sample), np.nan)
    with np.errstate(all="ignore"):
        columns = sample.numbers[:, list(feature.places)]
        if feature.kind == "number":
            return columns[:, 0]
        if feature.kind == "difference":
            return columns[:, 0] - columns[:, 1]
        if feature.kind == "distance":
            return np.abs(columns[:, 0] - feature.weights[0])
        if feature.kind == "low-bit":
            return lowest_bit(columns[:, 0])
        if feature.kind == "zeros":
            return trailing_zeros(columns[:, 0])
        if feature.kind == "direction":
            return columns @ np.array(feature.weights)
        if feature.kind == "spread":
            halves = len(feature.weights) // 2
            centre, scale = np.array(feature.weights[:halves]), np.array(feature.weights[halves:])
            return np.sum(((columns - centre) / scale) ** 2, axis=1)
        if feature.kind == "largest":
            whole = np.where(np.isnan(sample.numbers), -np.inf, sample.numbers)
            place = np.argmax(whole, axis=1).astype(float) if sample.width else np.zeros(len(sample))
            return np.where(sample.present.any(axis=1), place, np.nan)
        count = sample.present.sum(axis=1).astype(float)
        return count if feature.kind == "count" else np.array([len(one.texts) for one in sample.outputs], float)


def texts_of(feature: OutputFeature, sample: Sample) -> list[str]:
    """A feature that is a text, of every output."""
    if feature.kind == "shape":
        return [output.shape for output in sample.outputs]
    if feature.kind == "nature":
        return [_nature(output) for output in sample.outputs]
    if feature.kind == "atoms":
        place = {value: str(number) for number, value in enumerate(feature.weights)}
        return ["".join(place.get(x, ".") for x in output.numbers) for output in sample.outputs]
    return [repr((output.shape, list(output.numbers), list(output.texts))) for output in sample.outputs]


def _nature(output: CallOutput) -> str:
    return "".join("n" if math.isnan(x) else "i" if math.isinf(x) else "0" if x == 0 else "." for x in output.numbers)


def lowest_bit(values: Values) -> Values:
    """The exponent of the lowest bit that is set: -1 for 0.5 and 1.5, -52 for 1 + 2^-52."""
    fraction, exponent = np.frexp(values)
    return _bits(values, exponent.astype(float) - 53 + _trailing(fraction), ZERO_BIT)


def trailing_zeros(values: Values) -> Values:
    """How many of the 53 digits of a float are zero at its end."""
    return _bits(values, _trailing(np.frexp(values)[0]), 53.0)


def _trailing(fraction: Values) -> Values:
    whole = (np.where(np.isfinite(fraction), np.abs(fraction), 0.5) * 2.0**53).astype(np.int64)
    return np.log2(np.maximum(whole & -whole, 1).astype(float))


def _bits(values: Values, bits: Values, at_zero: float) -> Values:
    return np.where(np.isfinite(values), np.where(values == 0, at_zero, bits), np.nan)


def features_of(first: Sample, second: Sample, *, bits: bool) -> Iterator[OutputFeature]:
    """The features that these two samples suggest; their constants come from the samples."""
    width = min(max(first.width, second.width), MOST_NUMBERS)
    yield OutputFeature("how many numbers the output holds", "len(numbers)", "count")
    yield OutputFeature("how many texts the output holds", "len(texts)", "count-texts")
    for place in range(width):
        yield OutputFeature(f"number {place + 1} of the output", f"numbers[{place}]", "number", (place,))
    pooled = _pooled(first, second, width)
    for place in range(min(width, 8)):
        column = pooled[:, place] if len(pooled) else pooled
        finite = column[np.isfinite(column)]
        if finite.size:
            centre = float(np.median(finite))
            yield OutputFeature(
                f"the distance of number {place + 1} from {centre!r}",
                f"abs(numbers[{place}] - {centre!r})",
                "distance",
                (place,),
                (centre,),
            )
        if finite.size and bits:
            yield OutputFeature(
                f"the exponent of the lowest bit of number {place + 1}",
                f"lowest_bit(numbers[{place}])",
                "low-bit",
                (place,),
            )
            yield OutputFeature(
                f"the zero bits at the end of number {place + 1}",
                f"trailing_zeros(numbers[{place}])",
                "zeros",
                (place,),
            )
    if width > 1:
        yield OutputFeature(
            "the place of the largest number",
            "numbers.index(max(numbers, key=lambda x: -1e999 if x != x else x))",
            "largest",
        )
        for one in range(min(width, MOST_PAIRED)):
            for other in range(one):
                yield OutputFeature(
                    f"number {one + 1} less number {other + 1}",
                    f"numbers[{one}] - numbers[{other}]",
                    "difference",
                    (one, other),
                )
        yield from _directions(first, second)
    yield from _inside(first, second)


def _inside(first: Sample, second: Sample) -> Iterator[OutputFeature]:
    """Values of one type of output alone, where there are several: what a number says may hang on what was said."""
    seen = Counter(output.shape for one in (first, second) for output in one.outputs)
    least = OFTEN * (len(first) + len(second))
    if len(seen) < 2:
        return
    for shape, count in seen.most_common(MOST_SHAPES):
        width = max(len(output.numbers) for one in (first, second) for output in one.outputs if output.shape == shape)
        for place in range(min(width, MOST_INSIDE) if count >= least else 0):
            code = f"(numbers[{place}] if shape == {shape!r} else math.nan)"
            yield OutputFeature(f"number {place + 1} of an output {shape}", code, "number", (place,), given=shape)


def _atoms(first: Sample, second: Sample) -> Iterator[OutputFeature]:
    """Which numbers are one of some values that come up often, such as the ends of a range that noise was cut to."""
    seen = Counter(x for one in (first, second) for output in one.outputs for x in output.numbers[:MOST_NUMBERS])
    least = max(2.0, OFTEN * (len(first) + len(second)))
    known = tuple(
        sorted(float(value) for value, count in seen.most_common(MOST_ATOMS) if count > least and not math.isnan(value))
    )
    if known:
        listed = ", ".join(f"{value:g}" for value in known)
        yield OutputFeature(f"which numbers are one of {listed}", f"atoms(numbers, {list(known)})", "atoms", (), known)


def _pooled(first: Sample, second: Sample, width: int) -> Values:
    parts = [np.pad(one.numbers[:, :width], ((0, 0), (0, max(0, width - one.width))), constant_values=np.nan)
             for one in (first, second)]  # fmt: skip
    return np.concatenate(parts)


def _directions(first: Sample, second: Sample) -> Iterator[OutputFeature]:
    """Fisher's direction between two samples, the plain sum, and the distance from the middle, all in one number."""
    width = min(first.width, second.width, 64)
    if width < 2:
        return
    places = tuple(range(width))
    yield _direction("the sum of the numbers", places, np.ones(width))
    pair = [one.numbers[:, :width] for one in (first, second)]
    kept = [one[np.isfinite(one).all(axis=1) & (np.abs(one) < 1e100).all(axis=1)] for one in pair]
    if min(map(len, kept)) < 8:
        return
    means = [one.mean(axis=0) for one in kept]
    scatter = sum(np.cov(one, rowvar=False).reshape(width, width) for one in kept) / 2
    scale = np.diag(scatter).max()
    if not (np.isfinite(scale) and scale > 0):
        yield _direction("a combination of the numbers", places, means[1] - means[0])
        return
    ridge = scatter + 0.05 * np.diag(np.diag(scatter)) + 1e-9 * scale * np.eye(width)
    for words, matrix in (("a combination of the numbers", ridge), ("a plain combination", np.diag(np.diag(ridge)))):
        yield _direction(words, places, np.linalg.solve(matrix, means[1] - means[0]))
    spreads = np.sqrt(np.diag(ridge))
    centre = (means[0] + means[1]) / 2
    weights = tuple(float(one) for one in (*centre, *spreads))
    code = f"sum(((x - c) / s) ** 2 for x, c, s in zip(numbers, {list(weights[:width])}, {list(weights[width:])}))"
    yield OutputFeature("the distance of all numbers from their middle", code, "spread", places, weights)


def _direction(words: str, places: tuple[int, ...], weights: Values) -> OutputFeature:
    given = tuple(float(one) for one in weights)
    code = f"sum(w * x for w, x in zip({list(given)}, numbers))"
    return OutputFeature(words, code, "direction", places, given)


TEXTS = (
    OutputFeature("the type and the lengths of the output, or its exception", "shape", "shape"),
    OutputFeature("which numbers are zero, NaN or infinite", "nature(numbers)", "nature"),
    OutputFeature("the whole output", "repr((shape, numbers, texts))", "whole"),
)


@dataclass(frozen=True)
class Event:
    """Something that an output does or does not do, and on which table it is expected more often.

    `test` is ">=", "<=", "==" or "in"; `likelier` is 0 or 1, the table of the pair on which the event is more frequent.
    """

    feature: OutputFeature
    test: str
    value: Any
    likelier: int

    @property
    def words(self) -> str:
        """For people, without values that are long."""
        if self.test == "in":
            shown = ", ".join(sorted(self.value)[:3])
            more = f" and {len(self.value) - 3} more" if len(self.value) > 3 else ""
            return f"{self.feature.words} is one of: {shown[:200]}{more}"
        relation = {">=": "at least", "<=": "at most", "==": "exactly"}[self.test]
        return f"{self.feature.words} is {relation} {self.value!r}"

    @property
    def code(self) -> str:
        """The event as a Python expression."""
        value = sorted(self.value) if self.test == "in" else self.value
        return f"{self.feature.code} {self.test} {value!r}"

    def holds(self, sample: Sample) -> NDArray[np.bool_]:
        """For every output; an output without the feature does not have the event."""
        if self.test == "in":
            return np.array([text in self.value for text in texts_of(self.feature, sample)], bool)
        values = values_of(self.feature, sample)
        with np.errstate(invalid="ignore"):
            if self.test == ">=":
                return values >= self.value
            return values <= self.value if self.test == "<=" else values == self.value


def evidence(hits: Any, runs: Any, other_hits: Any, other_runs: Any, epsilon: float, delta: float) -> Any:
    """By how many deviations an event is more frequent than exp(epsilon) times the other side plus delta."""
    p, q = (hits + 0.5) / (runs + 1.0), (other_hits + 0.5) / (other_runs + 1.0)
    factor = math.exp(epsilon)
    return (p - factor * q - delta) / np.sqrt(p * (1 - p) / runs + factor**2 * q * (1 - q) / other_runs)


def best_events(
    first: Sample, second: Sample, epsilon: float, delta: float, *, bits: bool = True
) -> list[tuple[float, Event]]:
    """For every feature its best event on these samples, with the evidence; the best first; `bits`: of floats, too."""
    found: list[tuple[float, Event]] = []
    for feature in (*TEXTS, *_atoms(first, second)):
        found += _best_texts(feature, first, second, epsilon, delta)
    for feature in features_of(first, second, bits=bits):
        pair = values_of(feature, first), values_of(feature, second)
        if not all(np.isnan(one).all() for one in pair):
            found += _best_cut(feature, pair, epsilon, delta)
    return sorted(found, key=lambda one: -one[0])


def _best_texts(
    feature: OutputFeature, first: Sample, second: Sample, epsilon: float, delta: float
) -> Iterator[tuple[float, Event]]:
    """All texts that are more frequent on one side than the claim allows, together."""
    pair = texts_of(feature, first), texts_of(feature, second)
    known = sorted(set(pair[0]) | set(pair[1]))
    if not 1 < len(known) <= MOST_CATEGORIES and (len(known) == 1 or feature.kind == "whole"):
        return
    place = {text: number for number, text in enumerate(known)}
    counts = [np.bincount([place[text] for text in one], minlength=len(known)).astype(float) for one in pair]
    sizes = [len(one) for one in pair]
    for side in (0, 1):
        mine, theirs = counts[side] / sizes[side], counts[1 - side] / sizes[1 - side]
        chosen = mine > math.exp(epsilon) * theirs
        if chosen.any():
            hits = counts[side][chosen].sum(), counts[1 - side][chosen].sum()
            score = evidence(hits[0], sizes[side], hits[1], sizes[1 - side], epsilon, delta)
            texts = frozenset(known[number] for number in np.flatnonzero(chosen))
            yield float(score), Event(feature, "in", texts, side)


def _best_cut(
    feature: OutputFeature, pair: tuple[Values, Values], epsilon: float, delta: float
) -> Iterator[tuple[float, Event]]:
    """The best threshold, and the best single value where values repeat."""
    sizes = [len(one) for one in pair]
    kept = [np.sort(one[~np.isnan(one)]) for one in pair]
    cuts, repeats = np.unique(np.concatenate(kept), return_counts=True)
    if cuts.size < 2 and all(len(one) == size for one, size in zip(kept, sizes, strict=True)):
        return
    common = cuts[repeats > max(2, 0.02 * sum(sizes))][:MOST_CUTS]
    if cuts.size > MOST_CUTS:
        cuts = cuts[np.unique(np.linspace(0, cuts.size - 1, MOST_CUTS).astype(int))]
    below = [np.searchsorted(one, cuts, "right") for one in kept]
    above = [len(one) - np.searchsorted(one, cuts, "left") for one in kept]
    equal = [np.searchsorted(one, common, "right") - np.searchsorted(one, common, "left") for one in kept]
    for test, counts, values in (("<=", below, cuts), (">=", above, cuts), ("==", equal, common)):
        if not values.size:
            continue
        for side in (0, 1):
            scores = evidence(counts[side], sizes[side], counts[1 - side], sizes[1 - side], epsilon, delta)
            best = int(np.argmax(scores))
            yield float(scores[best]), Event(feature, test, float(values[best]), side)
