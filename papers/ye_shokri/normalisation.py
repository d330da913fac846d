"""Private batch normalisation of features, as the first line of Algorithm 2 asks: noisy means and squares, composed.

Every record shows its features, clipped to a public length C, once to a release of their means and once to one of
their mean squares. Replacing a record moves the means by at most 2C/n and the mean squares, vectors without negative
entries and at most C^2 long, by at most sqrt(2) C^2/n. Everything after that reads the noisy statistics and the record
itself, so the training composes with the two releases.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from papers.framework.benchmark import load_benchmark
from papers.framework.bounds import bound_of, least_noise
from papers.framework.figure import Figure, line_style
from papers.framework.item import Beside, Cell, NotValid, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.ye_shokri.logistic import BATCHES, DECAY, DELTA, STEP_SIZE, Method, Rows, accuracy, as_accounted, coarse
from sordino.accounting.convert import compose
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme
from sordino.core.validate import SordinoError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


Array = NDArray[np.float64]

LENGTH = 4.0
_FLOOR = 0.02
_INTERCEPT = 0.3
_DIGITS, _MNIST = 1400, 10_000


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels between 0 and 1, and labels."""

    name: str
    train: Array
    train_labels: Array
    test: Array
    test_labels: NDArray[np.int64]


def images(options: Options) -> Images:
    """The first MNIST digits, averaged to 14 x 14, from the data folder; scikit-learn's digits without one."""
    if options.data_dir is None or not (options.data_dir / "mnist.npz").is_file():
        return _digits()
    found = load_benchmark("mnist", options.data_dir)
    count = min(2000 if options.quick else _MNIST, len(found.train_images))
    train, test = (coarse(part) / 255 for part in (found.train_images[:count], found.test_images))
    labels = found.train_labels[:count].astype(float)
    return Images(f"MNIST, first {count} records, 14 x 14", train, labels, test, found.test_labels.astype(np.int64))


def _digits() -> Images:
    from sklearn.datasets import load_digits  # noqa: PLC0415

    found: Any = load_digits()
    pixels, labels = np.asarray(found.data, float) / 16, np.asarray(found.target)
    return Images(
        f"scikit-learn digits, first {_DIGITS} records",
        pixels[:_DIGITS],
        labels[:_DIGITS].astype(float),
        pixels[_DIGITS:],
        labels[_DIGITS:].astype(np.int64),
    )


def cost(multiplier: float) -> GaussianDP:
    """Both releases, each with noise `multiplier` times its sensitivity."""
    return GaussianDP(math.sqrt(2) / multiplier)


def normalised(given: Images, multiplier: float, seed: int) -> Rows:
    """Rows of length at most one with an intercept, scaled by noisy means and variances; 0 noise is not private."""
    rng = np.random.default_rng([seed, 47])
    clipped, clipped_test = _clip(given.train, LENGTH), _clip(given.test, LENGTH)
    count = len(clipped)
    mean = clipped.mean(0) + multiplier * 2 * LENGTH / count * rng.standard_normal(clipped.shape[1])
    squares = (clipped**2).mean(0)
    squares = squares + multiplier * math.sqrt(2) * LENGTH**2 / count * rng.standard_normal(clipped.shape[1])
    scale = np.sqrt(np.maximum(squares - mean**2, _FLOOR))
    made = [_unit((rows - mean) / scale) for rows in (clipped, clipped_test)]
    return Rows("batch normalisation", made[0], given.train_labels, made[1], given.test_labels)


def by_image(given: Images) -> Rows:
    """Group normalisation: every image by its own mean and length, which costs nothing."""
    made = [_unit(rows - rows.mean(axis=1, keepdims=True)) for rows in (given.train, given.test)]
    return Rows("group normalisation", made[0], given.train_labels, made[1], given.test_labels)


def unscaled(given: Images) -> Rows:
    """No normalisation: pixels clipped to a length and divided by it."""
    made = [_unit(_clip(rows, LENGTH) / LENGTH, stretch=False) for rows in (given.train, given.test)]
    return Rows("as they are", made[0], given.train_labels, made[1], given.test_labels)


def training(method: Method, rows: Rows, epochs: int, noise: float) -> Guarantee:
    """What the method's theorem says of the training alone."""
    bound = bound_of(method.theorem, as_accounted(method, rows, epochs, noise))
    if bound is None:
        raise SordinoError(f"Expected {method.theorem} to apply to this training, got that it does not.")
    return bound.guarantee


def whole_epsilon(method: Method, rows: Rows, epochs: int, noise: float, release: GaussianDP | None) -> float:
    """Training and normalisation together."""
    alone = training(method, rows, epochs, noise)
    both = alone if release is None else compose([(alone, 1), (release, 1)])
    return both.epsilon(DELTA)


def needed_noise(method: Method, rows: Rows, epochs: int, epsilon: float, release: GaussianDP | None) -> float:
    """The least training noise with which the whole keeps within epsilon; infinite where the release alone does not."""
    if release is not None and release.epsilon(DELTA) >= epsilon:
        return math.inf
    return least_noise(
        lambda noise: whole_epsilon(method, rows, epochs, noise, release) <= epsilon,
        f"training and normalisation to keep within epsilon {epsilon:g}",
    )


def _clip(rows: Array, length: float) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, length / np.maximum(lengths, 1e-12))


def _unit(rows: Array, *, stretch: bool = True) -> NDArray[np.float32]:
    """Rows of length one (or at most one) with an intercept; a millionth less, for single precision."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled = rows / np.maximum(lengths, 1e-9) if stretch else _clip(rows, 1.0)
    with_intercept = np.hstack([math.sqrt(1 - _INTERCEPT**2) * scaled, np.full((len(rows), 1), _INTERCEPT)])
    return (with_intercept * (1 - 1e-6)).astype(np.float32)


# Private feature normalisation, the first line of Ye & Shokri's Algorithm 2: its own cost, and what it buys.

METHOD = Method("Theorem 4.2", Scheme.SHUFFLE_ONCE, "hidden-state.shuffle-once")
FREE = ("none", "group, free")


@dataclass(frozen=True)
class Trained:
    """One kind of normalisation at one epsilon: the noise that keeps the whole within it, and test accuracies."""

    kind: str
    epsilon: float
    noise: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy over seeds, in per cent; nothing where the normalisation alone is over budget."""
        return 100 * float(np.mean(self.accuracies)) if self.accuracies else math.nan

    @property
    def shown(self) -> str:
        """Mean and standard deviation over seeds."""
        return f"{self.mean:.1f} ± {100 * float(np.std(self.accuracies)):.1f}"


@item(
    name="ye-shokri-normalisation",
    paper="ye2022differentially",
    reproduces="Algorithm 2's private feature normalisation: its cost composed with the training's",
    reads=("mnist",),
    sliced=True,
)
def normalisation(options: Options) -> Outcome:
    """Cost of the noisy statistics, the whole pipeline's epsilon, and accuracy at equal epsilon."""
    given = images(options)
    epochs, seeds = (5, 1) if options.quick else (40, 10)
    multipliers = (5.0, 30.0) if options.quick else (2.0, 5.0, 20.0, 100.0)
    epsilons = (2.0,) if options.quick else (0.5, 1.0, 2.0, 4.0)
    found = [
        _trained(given, kind, epsilon, epochs, seeds, options.seed)
        for epsilon in epsilons
        for kind in (*FREE, *multipliers)
    ]
    target = epsilons[-2] if len(epsilons) > 1 else epsilons[-1]
    costs = [_cost_row(given, multiplier, target, epochs) for multiplier in multipliers]
    best = {kind: _best(found, target, kind) for kind in ("none", "group", "batch")}
    forgotten = whole_epsilon(METHOD, _rows(given, 2.0, 0), epochs, _alone(given, target, epochs), cost(2.0))
    return Outcome(
        (
            Table(
                "cost",
                ("noise multiplier", "epsilon of the statistics", f"epsilon if forgotten, training at {target:g}"),
                tuple(costs),
                f"Means and mean squares of {given.train.shape[1]} features at delta {DELTA:g}, replace-one, and the "
                "whole when the training alone was calibrated to the target.",
            ),
            Table(
                "accuracy",
                ("epsilon of the whole", *FREE, *(f"batch, multiplier {value:g}" for value in multipliers)),
                tuple(_accuracy_row(found, epsilon) for epsilon in epsilons),
                f"Test accuracy in per cent, mean and standard deviation over {seeds} seed(s), {epochs} epochs; "
                "- where the statistics alone are over budget.",
            ),
        ),
        (Figure("accuracy", lambda canvas: _draw(canvas, found, epsilons, multipliers), _CAPTION),),
        Verdict(
            VerdictKind.PARAMETERS_NOT_PUBLISHED,
            "The appendix names the scheme and gives neither data nor its cost. Composed with the training, noisy "
            f"means and variances are charged here; forgetting them would turn epsilon {target:g} into "
            f"{forgotten:.2f} at multiplier 2. At epsilon {target:g} the best private batch normalisation gives "
            f"{best['batch'].shown} % test accuracy, group normalisation, which is free, {best['group'].shown} "
            f"% and none {best['none'].shown} % (mean and standard deviation over {seeds} seeds).",
        ),
        (
            "Replace-one: the means move by 2C/n and the mean squares by sqrt(2) C^2/n for rows clipped to length C; "
            "each release is Gaussian, and everything later reads only them and the record itself.",
            "After normalisation rows are clipped to length one with an intercept, so that Proposition 5.1's constants "
            "hold; gradients are not clipped by norm (see ye-shokri-clipping).",
            "The training is certified by Theorem 4.2, converted to Rényi and added to the Gaussian releases; it keeps "
            "the paper's shuffled batches.",
            "Choosing the multiplier by test accuracy is not charged; it flatters batch normalisation.",
        ),
        (
            ("data", given.name),
            ("row clip C of the statistics", LENGTH),
            ("batches in a pass", BATCHES),
            ("epochs", epochs),
            ("step size", STEP_SIZE),
            ("weight decay", DECAY),
            ("delta", DELTA),
            ("relation", "replace-one"),
        ),
        (Beside("epsilon with the statistics forgotten", None, Upper(forgotten), "multiplier 2", NotValid(target)),),
    )


_CAPTION = (
    "Test accuracy at an epsilon for the whole pipeline, by kind of normalisation; private batch normalisation begins "
    "where its own statistics leave something of the budget."
)
_APART = 1.02


def _rows(given: Images, kind: str | float, seed: int) -> Rows:
    if isinstance(kind, float):
        return normalised(given, kind, seed)
    return unscaled(given) if kind == "none" else by_image(given)


def _alone(given: Images, epsilon: float, epochs: int) -> float:
    return needed_noise(METHOD, _rows(given, "none", 0), epochs, epsilon, None)


def _trained(given: Images, kind: str | float, epsilon: float, epochs: int, seeds: int, seed: int) -> Trained:
    release = cost(kind) if isinstance(kind, float) else None
    noise = needed_noise(METHOD, _rows(given, kind, seed), epochs, epsilon, release)
    name = kind if isinstance(kind, str) else f"{kind:g}"
    if math.isinf(noise):
        return Trained(name, epsilon, noise, ())
    chosen = [1000 * seed + place for place in range(seeds)]
    return Trained(
        name,
        epsilon,
        noise,
        tuple(accuracy(METHOD, _rows(given, kind, one), epochs, noise, one) for one in chosen),
    )


def _best(found: list[Trained], epsilon: float, kind: str) -> Trained:
    names = {"none": FREE[:1], "group": FREE[1:]}.get(kind)
    chosen = [one for one in found if one.epsilon == epsilon and one.accuracies]
    return max((one for one in chosen if (one.kind in names if names else one.kind not in FREE)), key=_mean)


def _mean(one: Trained) -> float:
    return one.mean


def _cost_row(given: Images, multiplier: float, target: float, epochs: int) -> tuple[Cell, ...]:
    release = cost(multiplier)
    whole = whole_epsilon(METHOD, _rows(given, "none", 0), epochs, _alone(given, target, epochs), release)
    return multiplier, Upper(release.epsilon(DELTA)), Upper(whole)


def _accuracy_row(found: list[Trained], epsilon: float) -> tuple[Cell, ...]:
    cells = (one.shown if one.accuracies else None for one in found if one.epsilon == epsilon)
    return epsilon, *cells


def _draw(canvas: "Canvas", found: list[Trained], epsilons: tuple[float, ...], multipliers: tuple[float, ...]) -> None:
    axes = canvas.add_subplot()
    names = {FREE[0]: "no normalisation", FREE[1]: "group normalisation, free"}
    names |= {f"{value:g}": f"private batch normalisation, multiplier {value:g}" for value in multipliers}
    for place, (kind, label) in enumerate(names.items()):
        points = [one.mean for one in found if one.kind == kind]
        # Beside each other, so that kinds of one accuracy are all seen.
        beside = [epsilon * _APART ** (place - 2.5) for epsilon in epsilons]
        axes.plot(beside, points, label=label, **line_style(place))
    axes.set(xscale="log", xlabel=f"epsilon of the whole at delta {DELTA:g}", ylabel="test accuracy, %")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    canvas.legend(loc="outside lower center", ncols=2)
