"""The chains of the papers, by their names and in their parameters: noisy gradient descent, DP-SGD, SGLD and ULA."""

import math
from dataclasses import replace
from typing import Any, Required, TypedDict, Unpack

from sordino.core import spec as specs
from sordino.core import validate
from sordino.core.bound import Relation, View
from sordino.core.validate import POSITIVE, instance_of, whole_number


class ChainOptions(TypedDict, total=False):
    """Relation, view and number of steps have no default; the rest is that of a spec."""

    steps: Required[int]
    relation: Required[Relation]
    view: Required[View]
    projection: specs.Ball | None
    start: specs.Start
    chains: int
    keep: specs.Keep | specs.Thinning | None
    average: specs.Average | None
    delta: float | None


def chain_spec(
    problem: specs.Problem,
    step_size: specs.Schedule,
    noise: specs.Noise,
    batch: specs.Batch,
    clipping: specs.Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> specs.Spec:
    """The spec of a chain in the library's own terms; every named chain ends here."""
    given: dict[str, Any] = dict(options)
    of_spec = {name: given.pop(name) for name in ("relation", "view", "average", "delta") if name in given}
    algorithm = specs.NoisyGradient(step_size=step_size, noise=noise, batch=batch, clipping=clipping, **given)
    return specs.Spec(algorithm=algorithm, problem=problem, **of_spec)


def records_of(problem: specs.Problem) -> int:
    """The public number of records, which the papers' step sizes are scaled with."""
    return whole_number("problem.n", instance_of("problem", problem, specs.Problem).n)


FULL_BATCH = specs.Batch(specs.Scheme.FULL)

Step = float | specs.Schedule


def as_schedule(name: str, value: Step) -> specs.Schedule:
    """A positive number as a constant schedule, a schedule as it is."""
    if isinstance(value, specs.Schedule):
        return value
    return specs.ConstantSchedule(validate.number(name, value, POSITIVE))


def power_law(schedule: specs.Schedule, factor: float, power: float) -> specs.Schedule:
    """The schedule factor * value ** power."""
    match schedule:
        case specs.ListSchedule():
            return specs.ListSchedule(tuple(factor * entry**power for entry in schedule.entries))
        case specs.PolynomialSchedule():
            return replace(schedule, initial=factor * schedule.initial**power, power=power * schedule.power)
    return specs.ConstantSchedule(factor * instance_of("a schedule", schedule, specs.ConstantSchedule).value ** power)


def noisy_sgd(
    problem: specs.Problem,
    *,
    step_size: Step,
    batch: specs.Batch,
    noise_scale: float | None = None,
    sigma: float | None = None,
    inverse_temperature: float | None = None,
    clipping: specs.Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> specs.Spec:
    """Mini-batch noisy gradient descent with step size eta; exactly one noise parameter is given.

    `noise_scale`: the absolute tau. `sigma`: noise N(0, 2 eta sigma^2 I), as in the hidden-state papers.
    `inverse_temperature` beta: noise N(0, (2 eta / beta) I).
    """
    eta = as_schedule("step_size", step_size)
    stated = {"noise_scale": noise_scale, "sigma": sigma, "inverse_temperature": inverse_temperature}
    given = {name: validate.number(name, value, POSITIVE) for name, value in stated.items() if value is not None}
    if len(given) != 1:
        raise validate.refuse("exactly one", "of noise_scale, sigma, inverse_temperature", sorted(given))
    [(name, value)] = given.items()
    if name == "noise_scale":
        scale = as_schedule(name, value)
    else:
        scale = power_law(eta, math.sqrt(2.0) * value if name == "sigma" else math.sqrt(2.0 / value), 0.5)
    return chain_spec(problem, eta, specs.GaussianNoise(scale), batch, clipping, **options)


def noisy_gd(problem: specs.Problem, *, step_size: Step, **options: Any) -> specs.Spec:
    """Full-batch noisy gradient descent, with the parameters of `noisy_sgd`."""
    return noisy_sgd(problem, step_size=step_size, batch=FULL_BATCH, **options)


def heavy_tailed_sgd(
    problem: specs.Problem,
    *,
    step_size: Step,
    batch: specs.Batch,
    alpha: float,
    sigma: float,
    clipping: specs.Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> specs.Spec:
    """Noisy SGD with noise sigma * xi, xi rotation-invariant stable of index alpha; at 2, xi is N(0, 2I)."""
    noise = specs.StableNoise(alpha, as_schedule("sigma", sigma))
    return chain_spec(problem, as_schedule("step_size", step_size), noise, batch, clipping, **options)


def dp_sgd(
    problem: specs.Problem,
    *,
    step_size: Step,
    batch: specs.Batch,
    noise_multiplier: float,
    clip_norm: float,
    **options: Unpack[ChainOptions],
) -> specs.Spec:
    """DP-SGD (Abadi et al. 2016): gradients clipped to C, noise multiplier m on their sum: tau = eta m C / b."""
    eta = as_schedule("step_size", step_size)
    clipping = specs.Clipping(specs.ClippingKind.NORM, clip_norm)
    multiplier = validate.number("noise_multiplier", noise_multiplier, POSITIVE)
    divisor = records_of(problem) if batch.size is None else batch.size
    noise = specs.GaussianNoise(power_law(eta, multiplier * clipping.bound / divisor, 1.0))
    return chain_spec(problem, eta, noise, batch, clipping, **options)


def sgld(
    problem: specs.Problem,
    *,
    step: Step,
    batch: specs.Batch,
    clipping: specs.Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> specs.Spec:
    """Stochastic gradient Langevin dynamics with the step e of Welling and Teh (2011).

    theta <- theta + (e / 2) (grad log prior + (n / b) sum of grad log-likelihoods) + sqrt(e) N(0, I).
    The mean loss is the potential over n, so eta = n e / 2 and tau = sqrt(e).
    """
    steps = as_schedule("step", step)
    noise = specs.GaussianNoise(power_law(steps, 1.0, 0.5))
    return chain_spec(problem, power_law(steps, 0.5 * records_of(problem), 1.0), noise, batch, clipping, **options)


def ula(problem: specs.Problem, *, step: Step, **options: Unpack[ChainOptions]) -> specs.Spec:
    """The unadjusted Langevin algorithm with step g on the potential U: x - g grad U + sqrt(2 g) N(0, I).

    The mean loss is U / n, so eta = n g and tau = sqrt(2 g).
    """
    steps = as_schedule("step", step)
    noise = specs.GaussianNoise(power_law(steps, math.sqrt(2.0), 0.5))
    return chain_spec(problem, power_law(steps, records_of(problem), 1.0), noise, FULL_BATCH, **options)
