"""Two-way traffic with Google's dp-accounting: its events and loss distributions in, ours out. Imported only on use.

An event's noise multiplier is relative to the add-remove sensitivity (the clip norm) whatever the relation. Its Rényi
accountant forgets to double that under replace-one; reading the event ourselves, we do not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.accounting import convert
from sordino.core.bound import Relation
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution, PureDP
from sordino.core.loss.atomic_pairs import LaplacePair, pair_from_curve
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair
from sordino.core.validate import InputError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_CURVE = np.concatenate([[0.0], np.geomspace(1e-4, 100.0, 1500)])


def guarantee_from_event(event: Any, relation: Relation) -> Guarantee:
    """The guarantee of a `DpEvent` under a relation, by our own accountant."""
    reader = _READERS.get(type(event).__name__)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise InputError(f"Expected one of the events {known}, got {type(event).__name__}; compose those instead.")
    return reader(event, relation)


def from_dp_accounting(distribution: "PrivacyLossDistribution") -> LossDistribution:
    """A pessimistic dp-accounting loss distribution as ours, through its public curve."""
    deltas = np.clip(np.asarray(distribution.get_delta_for_epsilon(_CURVE.tolist())) * (1 + 1e-9) + 1e-300, 0.0, 1.0)
    return LossDistribution(((pair_from_curve(_CURVE, np.minimum.accumulate(deltas)), 1),))


def to_dp_accounting(guarantee: LossDistribution, spacing: float = 1e-4) -> "PrivacyLossDistribution":
    """Our loss distribution as a pessimistic dp-accounting one with the given discretisation interval.

    The curve is sampled at multiples of the spacing and connected, so the result dominates; losses beyond the sampled
    range count as infinite.
    """
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # noqa: PLC0415
    except ImportError:
        raise InputError(
            "Expected the package dp-accounting to be installed, got none; install sordino[dp-accounting]."
        ) from None

    reach = max(guarantee.epsilon(1e-12), 10 * spacing)
    if not np.isfinite(reach):
        reach = max(guarantee.epsilon(0.5), 1.0)
    last = min(int(np.ceil(reach / spacing)), 2_000_000)
    epsilons = spacing * np.arange(last + 1)
    deltas = guarantee.deltas(epsilons) if guarantee.factors else np.zeros(last + 1)
    pair = pair_from_curve(epsilons, np.minimum.accumulate(deltas))
    index = np.rint(np.asarray(pair.losses) / spacing).astype(int)
    probabilities = np.zeros(index[-1] - index[0] + 1)
    probabilities[index - index[0]] = pair.masses
    pmf = pld_pmf.DensePLDPmf(spacing, int(index[0]), probabilities, pair.infinite_mass, pessimistic_estimate=True)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _ratio(event: Any, relation: Relation) -> float:
    """How far one changed record moves a sum, over its noise: two clip norms under replace-one."""
    return (2 if relation is Relation.REPLACE_ONE else 1) / _noise(event)


def _poisson(event: Any, relation: Relation) -> Guarantee:
    if event.sampling_probability == 0.0:
        return convert.NOTHING
    if event.sampling_probability == 1.0:
        return guarantee_from_event(event.event, relation)
    pair = PoissonRemovePair if relation is Relation.ADD_REMOVE else PoissonReplacePair
    return LossDistribution(((pair(event.sampling_probability, 1 / _gaussian_multiplier(event.event)), 1),))


def _without_replacement(event: Any, relation: Relation) -> Guarantee:
    if relation is not Relation.REPLACE_ONE:
        raise InputError("Expected relation replace-one for sampling without replacement, got add-remove.")
    mu = _gaussian_multiplier(event.event)
    rate = event.sample_size / event.source_dataset_size
    if rate >= 1.0:
        return guarantee_from_event(event.event, relation)
    return LossDistribution(((WithoutReplacementPair(rate, 2 / mu), 1),))


def _gaussian_multiplier(event: Any) -> float:
    if type(event).__name__ != "GaussianDpEvent":
        raise InputError(f"Expected a sampled GaussianDpEvent, got a sampled {type(event).__name__}.")
    return _noise(event)


def _noise(event: Any) -> float:
    if not event.noise_multiplier > 0:
        given = event.noise_multiplier
        raise InputError(f"Expected noise_multiplier > 0, got {given!r}; without noise there is no guarantee.")
    return event.noise_multiplier


def _composed(event: Any, relation: Relation) -> Guarantee:
    parts = [(event.event, event.count)] if hasattr(event, "event") else [(part, 1) for part in event.events]
    return convert.compose((guarantee_from_event(part, relation), count) for part, count in parts if count)


_READERS: dict[str, Callable[[Any, Relation], Guarantee]] = {
    "NoOpDpEvent": lambda _event, _relation: PureDP(0.0),
    "GaussianDpEvent": lambda event, relation: GaussianDP(_ratio(event, relation)),
    "LaplaceDpEvent": lambda event, relation: LossDistribution(((LaplacePair(_ratio(event, relation)), 1),)),
    "PoissonSampledDpEvent": _poisson,
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "SelfComposedDpEvent": _composed,
    "ComposedDpEvent": _composed,
}
