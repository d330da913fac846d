"""How much an audit proves for its models: one Gaussian release of known epsilon, audited in every way.

    python bench/audit_power.py

Writes bench/pages/audit-power.md; seeds are fixed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.auditing.confidence import (
    ErrorCounts,
    band_epsilon,
    choose_threshold,
    count_errors,
    joint_epsilon,
)
from sordino.auditing.experiment import attack_parts
from sordino.auditing.methods.one_run import KnownGaussian, mu_lower
from sordino.auditing.methods.one_run_guesses import epsilon_from_guesses, planned_guesses, right_guesses
from sordino.core import gaussian
from sordino.core.gaussian import show_down

PAGE = Path(__file__).with_name("pages") / "audit-power.md"
DELTA, CONFIDENCE, REPETITIONS, MANY = 1e-5, 0.95, 9, 500
SHIFTS = (1.0, 2.0, 3.0)
MODELS = (100, 400, 1000, 4000, 10_000, 40_000)
_SUM = KnownGaussian("orthogonal canaries in one Gaussian sum")

_INTRODUCTION = f"""# What an audit proves for its models

Written by `python bench/audit_power.py`; do not edit. One release N(x, 1) of a number x that is 0 on one dataset and
mu on its neighbour, so that epsilon at delta = {DELTA:g} is known. Each entry is the median lower bound of
{REPETITIONS} audits with fixed seeds, joint confidence {100 * CONFIDENCE:g} %.

- **models**: trained, both datasets together; for one run, the number of canaries instead.
- **attack**: a quarter of the models would teach a score, a quarter chooses the threshold, the others are counted, both
  errors in one exact test, as in the method `attack` with an instance.
- **all thresholds**: every model counted, limits that hold for all thresholds at once; the score is fixed beforehand,
  as in the method `attack` without an instance, where the law of the score is not known.
- **known law**: difference of mean scores, as in the method `attack` where the law of the score is known.
- **cap**: the bound of an attack that never errs.
- **one run**: a single model with that many canaries in orthogonal directions, as many of the clearest guessed as was
  planned (add-remove, each canary of length mu under noise 1); valid for any mechanism.
- **known noise**: the same run, read by the difference of mean scores; valid only because the noise is Gaussian, its
  scale known or the same for all, and baselines equal.
"""


@dataclass(frozen=True)
class PowerRow:
    """Median bounds at one number of models."""

    models: int
    attack: float
    all_thresholds: float
    known_law: float
    cap: float
    one_run: float
    known_noise: float


def power_rows(shift: float, numbers: Sequence[int] = MODELS) -> Iterator[PowerRow]:
    """One row for each number of models, for a Gaussian release whose two means are `shift` apart."""
    for models in numbers:
        generator = np.random.default_rng([models, round(1000 * shift)])
        bounds = np.array([_audited(generator, shift, models) for _ in range(REPETITIONS)])
        attack, thresholds, pair, one_run, known = (float(value) for value in np.median(bounds, axis=0))
        counted = attack_parts(models)[1]
        most = joint_epsilon(ErrorCounts(0, counted, 0, counted), DELTA, CONFIDENCE)
        yield PowerRow(models, attack, thresholds, pair, most, one_run, known)


def power_page() -> str:
    """bench/pages/audit-power.md."""
    return "\n".join([_INTRODUCTION, *(line for shift in SHIFTS for line in _section(shift)), *_many()])


def _many() -> Iterator[str]:
    """Medians of one run that hang on no few seeds."""
    yield f"## One run, any mechanism: medians of {MANY:,} audits\n"
    yield "| canaries | mu | epsilon | median bound |"
    yield "| ---: | ---: | ---: | ---: |"
    for canaries, shift in ((1000, 2.0), *((10_000, shift) for shift in SHIFTS)):
        plan = planned_guesses(canaries, canaries, float(2 * special.ndtr(shift / 2) - 1), DELTA, CONFIDENCE)
        generator = np.random.default_rng([MANY, canaries, round(shift)])
        counts = []
        for _ in range(MANY):
            coins = generator.integers(0, 2, canaries).astype(bool)
            scores = shift * coins + generator.standard_normal(canaries)
            counts.append(right_guesses(scores, coins, plan.guesses))
        # The lower of the two middle counts is the lower bound.
        middle = int(np.sort(counts)[(MANY - 1) // 2])
        bound = epsilon_from_guesses(canaries, plan.guesses, middle, DELTA, CONFIDENCE)
        truth = show_down(gaussian.epsilon_lower(shift, DELTA))
        yield f"| {canaries} | {shift:g} | {truth} | {np.floor(100 * bound) / 100:.2f} |"
    yield ""


def _section(shift: float) -> Iterator[str]:
    truth = show_down(gaussian.epsilon_lower(shift, DELTA))
    yield f"## mu = {shift:g}: epsilon = {truth}\n"
    yield "| models | attack | all thresholds | known law | cap | one run | known noise |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in power_rows(shift):
        bounds = (
            row.attack,
            row.all_thresholds,
            row.known_law,
            row.cap,
            row.one_run,
            row.known_noise,
        )
        # Two decimals, so that the page does not depend on the last digits of a machine's arithmetic.
        yield f"| {row.models} | " + " | ".join(f"{np.floor(100 * bound) / 100:.2f}" for bound in bounds) + " |"
    yield ""


def _audited(generator: np.random.Generator, shift: float, models: int) -> tuple[float, ...]:
    first = generator.standard_normal(models // 2)
    second = generator.standard_normal(models // 2) + shift
    chosen = attack_parts(models)[0]
    threshold = float(choose_threshold(first[:chosen], second[:chosen], DELTA, CONFIDENCE))
    counts = _counts(first[2 * chosen :], second[2 * chosen :], threshold)
    heads = np.repeat([False, True], models // 2)
    law = mu_lower(np.concatenate([first, second]), heads, _SUM, CONFIDENCE)
    return (
        joint_epsilon(counts, DELTA, CONFIDENCE),
        float(band_epsilon(first, second, DELTA, CONFIDENCE)),
        gaussian.epsilon_lower(law, DELTA),
        *_one_run(generator, shift, models),
    )


def _counts(first: NDArray[np.float64], second: NDArray[np.float64], threshold: float) -> ErrorCounts:
    false_positives, false_negatives = count_errors(first, second, threshold)
    return ErrorCounts(int(false_positives), len(first), int(false_negatives), len(second))


def _one_run(generator: np.random.Generator, shift: float, canaries: int) -> tuple[float, ...]:
    coins = generator.integers(0, 2, canaries).astype(bool)
    # Planned from what a certificate of this release would say.
    plan = planned_guesses(canaries, canaries, float(2 * special.ndtr(shift / 2) - 1), DELTA, CONFIDENCE)
    scores = shift * coins + generator.standard_normal(canaries)
    right = right_guesses(scores, coins, plan.guesses)
    return (
        epsilon_from_guesses(canaries, plan.guesses, right, DELTA, CONFIDENCE),
        gaussian.epsilon_lower(mu_lower(scores, coins, _SUM, CONFIDENCE), DELTA),
    )


if __name__ == "__main__":
    PAGE.write_text(power_page() + "\n", encoding="utf-8")
