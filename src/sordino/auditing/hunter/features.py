"""Features of an output, and the event that best distinguishes two samples of outputs.

A feature is a number or a text made from an output, such as a value, a length, a type or the message of an exception: a
line of Python, which the hunt and the script of a counterexample evaluate alike, with the functions of `worker`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.auditing.hunter import worker
from sordino.auditing.hunter.processes import CallOutput

Values = NDArray[np.float64]
MOST_NUMBERS, MOST_PAIRED, MOST_CATEGORIES, MOST_CUTS = 24, 5, 400, 200
MOST_BITS, MOST_COMBINED = 8, 64  # numbers whose bits are looked at, and that are combined to one direction
# Types of outputs that are looked into one by one, values of each, and values that come up again and again.
MOST_SHAPES, MOST_INSIDE, MOST_ATOMS = 6, 3, 8
OFTEN = 0.01


@dataclass(frozen=True)
class OutputFeature:
    """Something about an output: `words` for people, `code` an expression of `shape`, `numbers` and `texts`."""

    words: str
    code: str
    kind: str


TEXTS = (
    OutputFeature("the type and the lengths of the output, or its exception", "shape", "shape"),
    OutputFeature("which numbers are zero, NaN or infinite", "nature(numbers)", "nature"),
    OutputFeature("the whole output", "repr((shape, list(numbers), list(texts)))", "whole"),
)


@lru_cache(maxsize=4096)
def _reader(code: str) -> Callable[[str, Sequence[float], Sequence[str]], Any]:
    return eval(f"lambda shape, numbers, texts: {code}", vars(worker) | {"nan": math.nan, "inf": math.inf})


class Sample:
    """Outputs of one table, and what was read off them."""

    def __init__(self, outputs: Sequence[CallOutput]) -> None:
        self.outputs = outputs

    def __len__(self) -> int:
        return len(self.outputs)

    def half(self, which: int) -> "Sample":
        """Every other output."""
        return Sample(self.outputs[which::2])

    def texts(self, feature: OutputFeature) -> list[str]:
        reader = _reader(feature.code)
        return [reader(*output) for output in self.outputs]

    def numbers(self, feature: OutputFeature) -> Values:
        """A feature that is a number, of every output; NaN where an output has none."""
        reader, values = _reader(feature.code), np.full(len(self.outputs), np.nan)
        for place, output in enumerate(self.outputs):
            try:
                values[place] = reader(*output)
            except (IndexError, ValueError, OverflowError):  # as in the script
                continue
        return values


@dataclass(frozen=True)
class Event:
    """Something an output does (`test` >=, <=, == or in), and the table of the pair where it is `likelier`."""

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
        """The event as an expression of `shape`, `numbers` and `texts`."""
        value = f"{{{', '.join(map(repr, sorted(self.value)))}}}" if self.test == "in" else repr(self.value)
        return f"{self.feature.code} {self.test} {value}"

    def holds(self, sample: Sample) -> NDArray[np.bool_]:
        if self.test == "in":
            return np.array([text in self.value for text in sample.texts(self.feature)], bool)
        compared = {">=": np.greater_equal, "<=": np.less_equal, "==": np.equal}[self.test]
        return compared(sample.numbers(self.feature), self.value)


def features_of(first: Sample, second: Sample, *, bits: bool) -> Iterator[OutputFeature]:
    """The features that are numbers which these two samples suggest; their constants come from the samples."""
    yield OutputFeature("how many numbers the output holds", "len(numbers)", "count")
    yield OutputFeature("how many texts the output holds", "len(texts)", "count-texts")
    both = [*first.outputs, *second.outputs]
    width = min(max((len(output.numbers) for output in both), default=0), MOST_NUMBERS)
    for place in range(width):
        at, name = f"numbers[{place}]", f"number {place + 1}"
        yield OutputFeature(f"{name} of the output", at, "number")
        finite = [x for output in both for x in output.numbers[place : place + 1] if math.isfinite(x)]
        if place >= MOST_BITS or not finite:
            continue
        centre = float(np.median(finite))
        yield OutputFeature(f"the distance of {name} from {centre!r}", f"abs({at} - {centre!r})", "distance")
        if bits:
            yield OutputFeature(f"the exponent of the lowest bit of {name}", f"lowest_bit({at})", "low-bit")
            yield OutputFeature(f"the zero bits at the end of {name}", f"trailing_zeros({at})", "zeros")
    if width >= 2:
        code = "numbers.index(max(numbers, key=lambda x: -inf if x != x else x))"
        yield OutputFeature("the place of the largest number", code, "largest")
        for one in range(min(width, MOST_PAIRED)):
            for other in range(one):
                words, code = f"number {one + 1} less number {other + 1}", f"numbers[{one}] - numbers[{other}]"
                yield OutputFeature(words, code, "difference")
        yield from _directions(first, second)
    yield from _inside(both)


def _inside(outputs: Sequence[CallOutput]) -> Iterator[OutputFeature]:
    """Values of one type of output alone, where there are several: what a number says may hang on what was said."""
    seen = Counter(output.shape for output in outputs)
    for shape, count in seen.most_common(MOST_SHAPES) if len(seen) > 1 else ():
        width = max(len(output.numbers) for output in outputs if output.shape == shape)
        for place in range(min(width, MOST_INSIDE) if count >= OFTEN * len(outputs) else 0):
            code = f"(numbers[{place}] if shape == {shape!r} else nan)"
            yield OutputFeature(f"number {place + 1} of an output {shape}", code, "inside")


def _atoms(outputs: Sequence[CallOutput]) -> Iterator[OutputFeature]:
    """Which numbers are one of some values that come up often, such as the ends of a range that noise was cut to."""
    seen = Counter(x for output in outputs for x in output.numbers[:MOST_NUMBERS])
    least = max(2.0, OFTEN * len(outputs))
    known = sorted(float(x) for x, count in seen.most_common(MOST_ATOMS) if count > least and not math.isnan(x))
    if known:
        words = f"which numbers are one of {', '.join(f'{value:g}' for value in known)}"
        yield OutputFeature(words, f"atoms(numbers, {known})", "atoms")


def _directions(first: Sample, second: Sample) -> Iterator[OutputFeature]:
    """Fisher's direction between two samples, the plain sum, and the distance from the middle, all in one number."""
    width = min(max(len(output.numbers) for output in one.outputs) for one in (first, second))
    width = min(width, MOST_COMBINED)
    if width < 2:
        return
    yield _direction("the sum of the numbers", np.ones(width))
    pair = [
        np.array([output.numbers[:width] for output in one.outputs if len(output.numbers) >= width], float)
        for one in (first, second)
    ]
    kept = [one[(np.abs(one) < 1e100).all(axis=1)] for one in pair]
    if min(map(len, kept)) < 8:
        return
    means = [one.mean(axis=0) for one in kept]
    scatter = sum(np.cov(one, rowvar=False) for one in kept) / 2
    scale = np.diag(scatter).max()
    if not (np.isfinite(scale) and scale > 0):
        yield _direction("a combination of the numbers", means[1] - means[0])
        return
    ridge = scatter + 0.05 * np.diag(np.diag(scatter)) + 1e-9 * scale * np.eye(width)
    for words, matrix in (("a combination of the numbers", ridge), ("a plain combination", np.diag(np.diag(ridge)))):
        yield _direction(words, np.linalg.solve(matrix, means[1] - means[0]))
    centre, spreads = ((means[0] + means[1]) / 2).tolist(), np.sqrt(np.diag(ridge)).tolist()
    code = f"sum(((x - c) / s) ** 2 for x, c, s in zip(numbers, {centre}, {spreads}))"
    yield OutputFeature("the distance of all numbers from their middle", code, "spread")


def _direction(words: str, weights: Values) -> OutputFeature:
    return OutputFeature(words, f"sum(w * x for w, x in zip({weights.tolist()}, numbers))", "direction")


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
    for feature in (*TEXTS, *_atoms([*first.outputs, *second.outputs])):
        found += _best_texts(feature, first.texts(feature), second.texts(feature), epsilon, delta)
    for feature in features_of(first, second, bits=bits):
        found += _best_cut(feature, (first.numbers(feature), second.numbers(feature)), epsilon, delta)
    return sorted(found, key=lambda one: -one[0])


def _best_texts(
    feature: OutputFeature, first: list[str], second: list[str], epsilon: float, delta: float
) -> Iterator[tuple[float, Event]]:
    """All texts that are more frequent on one side than the claim allows, together."""
    counts, sizes = (Counter(first), Counter(second)), (len(first), len(second))
    known = counts[0] | counts[1]
    if not 1 < len(known) <= MOST_CATEGORIES:
        return
    for side in (0, 1):
        mine, theirs, factor = counts[side], counts[1 - side], math.exp(epsilon) * sizes[side] / sizes[1 - side]
        chosen = frozenset(text for text in known if mine[text] > factor * theirs[text])
        if chosen:
            hits, other = (sum(count[text] for text in chosen) for count in (mine, theirs))
            score = evidence(hits, sizes[side], other, sizes[1 - side], epsilon, delta)
            yield float(score), Event(feature, "in", chosen, side)


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
