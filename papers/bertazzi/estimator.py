"""Section 3.3 of Bertazzi et al.: a Monte Carlo estimate along a chain, released with noise."""

from typing import TYPE_CHECKING

import numpy as np

from papers.framework.bounds import epsilon_of, least_noise
from papers.framework.figure import PANELS, Figure, line_style
from papers.framework.item import Beside, Improved, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from sordino.core.spec import Spec
from sordino.core.validate import SordinoError
from sordino.mechanisms.chain.release import NoisedAverage, coordinate
from sordino.mechanisms.chain.run import run
from sordino.model.families.classification import Logistic
from sordino.noise.randomness import SeededRandomness

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


RECORDS, DIM, DECAY, STEP, EPSILON, DELTA = 2000, 5, 0.1, 0.5, 1.0, 1e-5
TAU = (2 * STEP / RECORDS) ** 0.5
THEOREMS = ("mcmc.average", "average.coupling")
_CAPTION = (
    "A coordinate of a logistic posterior mean, averaged along a Langevin chain and released with Laplace noise at "
    "epsilon 1. Left: the noise that each theorem asks for. Right: the error that was measured."
)


@item(name="bertazzi-estimator", paper="bertazzi2025differential", reproduces="Propositions 3.7 and 3.10, an estimator")
def estimator(options: Options) -> Outcome:
    """The noise that each theorem asks for, and the error that the released estimate has."""
    lengths = (200,) if options.quick else (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
    repetitions = 10 if options.quick else 200
    scales = {name: [_scale(name, length) for length in lengths] for name in THEOREMS}
    rows, target = _rows(options.seed)
    truth = _truth(rows, target, options)
    errors = {
        name: [
            _error(rows, target, length, scale, repetitions, truth, options.seed)
            for length, scale in zip(lengths, found, strict=True)
        ]
        for name, found in scales.items()
    }
    published, ours = THEOREMS
    factor = scales[published][-1] / scales[ours][-1]
    return Outcome(
        tables=(
            Table(
                "estimator",
                ("steps", *(f"{name}: noise" for name in THEOREMS), *(f"{name}: error" for name in THEOREMS)),
                tuple(
                    (length, *(Upper(scales[name][k]) for name in THEOREMS), *(errors[name][k] for name in THEOREMS))
                    for k, length in enumerate(lengths)
                ),
                f"Laplace scale for epsilon = {EPSILON:g}, delta = {DELTA:g}, and root mean square error of the "
                "release.",
            ),
        ),
        figures=(Figure("estimator", lambda canvas: _draw(canvas, lengths, scales, errors), _CAPTION, *PANELS),),
        verdict=Verdict(
            VerdictKind.SAME,
            "The published route works as stated and its noise falls with the length of the chain. The paper prints no "
            "numbers.",
        ),
        improved=(
            Improved(
                "synchronous coupling",
                f"It bounds the average's sensitivity almost surely and asks for {factor:.2g} times less noise at "
                f"{lengths[-1]:,} steps, with no failure probability; the chain is the same.",
                "bound",
            ),
        ),
        notes=(
            "The paper gives no numbers. Data are drawn from a logistic model with unit rows; the chain is ULA on the "
            f"posterior with weight decay {DECAY:g}.",
            f"The error is against a non-private reference (a long average) over {repetitions} independent releases; "
            "it is measured on synthetic data, so showing it costs nothing.",
        ),
        parameters=(("records", RECORDS), ("d", DIM), ("step size", STEP), ("tau", TAU), ("weight decay", DECAY)),
        beside=(
            Beside(
                f"Laplace scale at {lengths[-1]:,} steps",
                None,
                Upper(scales[ours][-1]),
                formula=Upper(scales[published][-1]),
            ),
        ),
    )


def _spec(steps: int, scale: float, chains: int = 1) -> Spec:
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": STEP,
                "noise": {"kind": "gaussian", "scale": TAU},
                "batch": {"scheme": "full"},
                "chains": chains,
            },
            "problem": {
                "n": RECORDS,
                "dim": DIM,
                "gradient_sensitivity": 2.0,
                "gradient_bound": 1.0,
                "strong_convexity": DECAY,
                "smoothness": 0.25 + DECAY,
                "regulariser": {"strong_convexity": DECAY, "smoothness": DECAY},
            },
            "average": {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "laplace", "scale": scale}},
            "relation": "replace-one",
            "view": "average",
            "delta": DELTA,
        }
    )


def _scale(name: str, steps: int) -> float:
    """The smallest noise at which the theorem certifies epsilon."""

    def enough(scale: float) -> bool:
        return epsilon_of(name, _spec(steps, scale), DELTA) <= EPSILON

    return least_noise(enough, f"{name} to reach epsilon {EPSILON:g}")


def _rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 33])
    rows = rng.standard_normal((RECORDS, DIM))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    chances = 1 / (1 + np.exp(-4 * rows @ np.linspace(1.0, -1.0, DIM)))
    return rows, np.where(rng.random(RECORDS) < chances, 1.0, -1.0)


def _averages(rows: np.ndarray, target: np.ndarray, spec: Spec, seed: int) -> np.ndarray:
    release = run(spec, Logistic(weight_decay=DECAY), rows, target, SeededRandomness(seed), function=coordinate(0, DIM))
    if not isinstance(release, NoisedAverage):
        raise SordinoError(f"Expected an average from a spec with the view average, got {type(release).__name__}.")
    return np.asarray(release.averages, np.float64)[:, 0]


def _truth(rows: np.ndarray, target: np.ndarray, options: Options) -> float:
    """The posterior mean, by many chains with next to no noise on their averages. Not private; synthetic data."""
    # Quick: the same number of steps and chains as the releases, so that one compilation serves all.
    spec = _spec(200, 1e-9, 10) if options.quick else _spec(20_000, 1e-9, 64)
    return float(np.mean(_averages(rows, target, spec, options.seed + 1)))


def _error(
    rows: np.ndarray, target: np.ndarray, steps: int, scale: float, repetitions: int, truth: float, seed: int
) -> float:
    found = _averages(rows, target, _spec(steps, scale, repetitions), seed + steps)
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def _draw(
    canvas: "Canvas", lengths: tuple[int, ...], scales: dict[str, list[float]], errors: dict[str, list[float]]
) -> None:
    left, right = canvas.subplots(1, 2)
    for place, name in enumerate(THEOREMS):
        left.plot(lengths, scales[name], label=name, **line_style(place))
        right.plot(lengths, errors[name], label=name, **line_style(place))
    left.set(xscale="log", yscale="log", xlabel="steps", ylabel="Laplace scale at epsilon 1")
    right.set(xscale="log", yscale="log", xlabel="steps", ylabel="root mean square error, measured", ylim=(0.01, 1))
    left.legend()
