"""What theorems that couple two chains by the same noise read off a run: moduli of its steps, and its schedules."""

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.assumption import Assumption
from sordino.accounting.noisy_steps import LONGEST_SCHEDULE
from sordino.accounting.shifts.contraction import required_contraction
from sordino.accounting.theorems.shift_needs import chain_of
from sordino.core.spec import Schedule, Scheme, Spec

Array = NDArray[np.float64]

# Coupling says nothing of Poisson batches: their curvature varies with the realised size.
COUPLED_SCHEMES = frozenset(Scheme) - {Scheme.POISSON}


def moduli(spec: Spec) -> float | Array:
    """The modulus of every step: one number for a constant step size."""
    chain, contraction = chain_of(spec), required_contraction(spec)
    step = chain.step_size.constant
    return contraction.at(step) if step is not None else contraction.at_each(chain.step_size.values(chain.steps))


def largest_modulus(spec: Spec) -> float:
    """The largest modulus of any step."""
    found = moduli(spec)
    return float(found.max()) if isinstance(found, np.ndarray) else found


def extremes(schedule: Schedule, steps: int) -> tuple[float, float]:
    """The largest and the last value of a schedule."""
    if schedule.constant is not None:
        return schedule.constant, schedule.constant
    values = schedule.values(steps)
    return float(values.max()), float(values[-1])


def _too_long(spec: Spec) -> str | None:
    chain = chain_of(spec)
    if chain.steps <= LONGEST_SCHEDULE or (chain.step_size.is_constant and chain.noise.scale.is_constant):
        return None
    return f"evaluates varying schedules of at most {LONGEST_SCHEDULE} steps, and this run has {chain.steps}"


def _made_too_long(spec: Spec) -> Spec:
    schedule = {"kind": "polynomial", "initial": 0.1, "offset": 1.0, "power": 0.5}
    values = {"algorithm.steps": LONGEST_SCHEDULE + 1, "algorithm.step_size": schedule, "algorithm.keep": None}
    return spec.with_values(values)


SCHEDULE_LENGTH = Assumption(
    "schedule length", f"a varying schedule has at most {LONGEST_SCHEDULE} steps", _too_long, _made_too_long
)
