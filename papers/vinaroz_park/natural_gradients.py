"""A network with one hidden layer beside a linear part, and the derivative of its output in every parameter."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, instance_of, number, refuse, whole_number
from sordino.data.scaling import row_lengths
from sordino.mechanisms.rounds import check_rows_fit, described
from sordino.noise.integer_sums import checked_rows, own_products
from sordino.noise.lattice import checked_bound
from sordino.noise.randomness import Law, NoisedCall, Purpose, Randomness

Values = NDArray[np.float32]


@dataclass(frozen=True)
class SkipNetwork:
    """f(x) = v . tanh(W x + b) + c + l . x; parameters are flat: W and b, then v, c and l.

    A run starts at random, data-free hidden weights of variance `start_scale`^2, output weights of `output_scale`^2,
    and no linear part.
    """

    hidden: int
    start_scale: float = 0.2
    output_scale: float = 0.3

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", whole_number("hidden", self.hidden))
        for name in ("start_scale", "output_scale"):
            object.__setattr__(self, name, number(name, getattr(self, name), NON_NEGATIVE))

    def size(self, features: int) -> int:
        """The number of parameters."""
        return self.hidden * (features + 2) + 1 + features

    def start(self, features: int, generator: np.random.Generator) -> Values:
        """Parameters before the first round."""
        inner = self.start_scale * generator.standard_normal(self.hidden * (features + 1))
        outer = self.output_scale * generator.standard_normal(self.hidden)
        return np.concatenate([inner, outer, np.zeros(1 + features)]).astype(np.float32)

    def predict(self, theta: NDArray[Any], rows: NDArray[Any]) -> Array:
        """The output at every row."""
        return self.derivatives(theta, rows)[0]

    def derivatives(self, theta: NDArray[Any], rows: NDArray[Any]) -> tuple[Array, Array]:
        """The output at every row, and its derivative in every parameter, (rows, parameters); each from its row alone.

        Sums over a row are exact products or are added entry by entry (`record_sums`), in double precision.
        """
        X, parameters, width = np.asarray(rows, np.float64), np.asarray(theta, np.float64), rows.shape[1]
        inner = parameters[: self.hidden * (width + 1)].reshape(width + 1, self.hidden)
        output, constant, straight = np.split(parameters[self.hidden * (width + 1) :], [self.hidden, self.hidden + 1])
        activity = np.tanh(own_products(X, inner[:-1]) + inner[-1])
        slopes = (1.0 - activity * activity) * output
        found = np.empty((len(X), len(parameters)))
        parts = np.split(found, np.cumsum([width * self.hidden, self.hidden, self.hidden, 1]), axis=1)
        np.multiply(X[:, :, None], slopes[:, None, :], out=parts[0].reshape(len(X), width, self.hidden))
        for part, values in zip(parts[1:], (slopes, activity, 1.0, X), strict=True):
            part[:] = values
        curved = own_products(activity, output[:, None])[:, 0]
        return curved + constant + own_products(X, straight[:, None])[:, 0], found


def hidden_units(parameters: float, features: int) -> int:
    """The most hidden units with no more than so many parameters in all, but at least one."""
    return max(1, math.floor((parameters - 1 - features) / (features + 2)))


# Natural gradients in rounds: clip and noise are measured in the metric of a public law of rows, not of the data.
#
# With derivatives j of the output at a row and residual r, a record's gradient is r j. Let F be the mean of j j' over
# rows drawn from a standard normal law, at the current, released, parameters. A record contributes F^(-1/2) r j,
# shortened to the clip; the noised sum g moves the parameters by F^(-1/2) g. In that metric no direction is louder
# than another, so neither the clip nor the noise is spent on loud ones. F reads no record: with rows that were
# whitened by an earlier release it is close to the data's own metric, and where it is not, only accuracy suffers.
#
# A record's contribution is computed from that record alone, in double precision, and rounded to whole numbers of a
# public unit: sums are exact, whatever the order and number of records (compare `exact_sums`). Noise is drawn and
# added in double precision, so floating point is not covered (unlike `run_full_gradients`, whose noise is exact too).

_SHARE = Interval(0.0, 1.0, high_open=True)
# Below the clip by more than what double precision loses in a length, and rounding to the grid adds to it.
_INSIDE = 1.0 - 2.0**-14
# The clip is at most this many units, so the sums of 2^28 records are whole numbers of 64 bits.
_GRID_DIGITS = 34
_ROWS_PER_BLOCK = 4096
# Parameters beyond this belong to a run that noise has blown up; cut, so that no product overflows.
_FAR = 1e4


@dataclass(frozen=True)
class NaturalRule:
    """Public choices that do not touch the guarantee.

    Attributes:
        momentum: share of the last direction that is kept.
        damping: added to every eigenvalue of F.
        renewed: rounds between two computations of F.
        reference_rows: rows that F is averaged over.
        cut: entries of rows are cut to this size, so that one record cannot be far from the law.
    """

    momentum: float = 0.8
    damping: float = 0.01
    renewed: int = 5
    reference_rows: int = 4096
    cut: float = 4.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", number("momentum", self.momentum, _SHARE))
        for name in ("damping", "cut"):
            object.__setattr__(self, name, number(name, getattr(self, name), POSITIVE))
        for name in ("renewed", "reference_rows"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))


@dataclass(frozen=True, eq=False)
class NaturalRelease:
    """The parameters after the last round, and the spec that ran."""

    spec: Spec
    network: SkipNetwork
    rule: NaturalRule
    theta: Values

    def predict(self, rows: Any) -> NDArray[np.float64]:
        """The fitted output at every row."""
        return self.network.predict(self.theta, _cut(rows, self.rule)).astype(np.float64)


def run_natural_gradients(
    spec: Spec, network: SkipNetwork, features: Any, target: Any, randomness: Randomness, *, rule: NaturalRule
) -> NaturalRelease:
    """Fit a network to squared error by noised sums of clipped natural gradients over all records."""
    instance_of("network", network, SkipNetwork)
    instance_of("randomness", randomness, Randomness)
    algorithm = described(spec, "gradients")
    if algorithm.sampling.scheme is not Scheme.FULL:
        raise refuse("algorithm.sampling.scheme", "to be full", algorithm.sampling.scheme.value)
    X, y = checked_rows(features, target, np.float32)
    clip, scales = checked_bound("algorithm.contribution", algorithm.contribution), algorithm.sum_noise
    check_rows_fit(spec, len(X))
    rows, targets = _cut(X, rule), np.asarray(y, np.float32)
    noise, public = randomness.generator(Purpose.NOISE), randomness.generator(Purpose.START)
    theta = network.start(X.shape[1], public)
    law = public.standard_normal((rule.reference_rows, X.shape[1])).astype(np.float32)
    direction, inverse_root = np.zeros(len(theta)), np.eye(len(theta))
    for k, step_size in enumerate(algorithm.schedule("step_size").values(algorithm.rounds)):
        if k % rule.renewed == 0:
            inverse_root = _inverse_root(network, theta, law, rule.damping)
        whole = sum(contributions(network, theta, rows, targets, inverse_root, clip), np.zeros(len(theta), np.int64))
        exponent = unit_exponent(clip)
        call = NoisedCall(Law.GAUSSIAN, whole, scales[k], math.ldexp(1.0, exponent))
        noised = randomness.port.answer(call, partial(_drawn, whole, exponent, scales[k], noise))
        noised = noised / algorithm.records
        direction = rule.momentum * direction + (1.0 - rule.momentum) * (inverse_root @ noised)
        theta = np.clip(theta - step_size * direction, -_FAR, _FAR).astype(np.float32)
    return NaturalRelease(spec, network, rule, theta)


def _drawn(whole: NDArray[np.int64], exponent: int, scale: float, noise: np.random.Generator) -> Array:
    return np.ldexp(whole.astype(np.float64), exponent) + scale * noise.standard_normal(len(whole))


def contributions(
    network: SkipNetwork, theta: Values, rows: Values, targets: Values, inverse_root: Array, clip: float
) -> Iterator[NDArray[np.int64]]:
    """The sums of clipped contributions in units of 2^`unit_exponent(clip)`, a block of rows after another."""
    for first in range(0, len(rows), _ROWS_PER_BLOCK):
        part = slice(first, first + _ROWS_PER_BLOCK)
        predicted, derivatives = network.derivatives(theta, rows[part])
        turned = own_products(derivatives, inverse_root)
        residuals = predicted - targets[part]
        lengths = np.abs(residuals) * row_lengths(turned)
        # A length of at least the smallest number: the quotient is then finite, and no length is 0.
        weights = residuals * np.minimum(1.0, _INSIDE * clip / np.maximum(lengths, np.finfo(np.float64).tiny))
        yield np.rint(np.ldexp(weights[:, None] * turned, -unit_exponent(clip))).astype(np.int64).sum(axis=0)


def unit_exponent(clip: float) -> int:
    """The power of two that contributions are whole numbers of."""
    return math.frexp(clip)[1] - _GRID_DIGITS


def _inverse_root(network: SkipNetwork, theta: Values, law: Values, damping: float) -> Array:
    derivatives = network.derivatives(theta, law)[1]
    values, vectors = np.linalg.eigh(derivatives.T @ derivatives / len(law))
    return (vectors / np.sqrt(np.maximum(values, 0.0) + damping)) @ vectors.T


def _cut(rows: Any, rule: NaturalRule) -> Values:
    return np.clip(np.asarray(rows), -rule.cut, rule.cut).astype(np.float32)
