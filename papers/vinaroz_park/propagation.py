"""Private full-batch rounds of messages on a network of 50 hidden units, and an audit of mismatched noise."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from papers.round_words import rounds
from papers.vinaroz_park import budget as residual
from papers.vinaroz_park.budget import DELTA, Budget
from papers.vinaroz_park.message_passing import mismatched_sep, stochastic_ep
from papers.vinaroz_park.networks import Fitted
from papers.vinaroz_park.printed import KIN8NM, claimed_multiplier
from papers.vinaroz_park.refinements import linear_decay
from papers.vinaroz_park.sets import Fold
from sordino.auditing.confidence import ErrorCounts, epsilon_lower
from sordino.core import gaussian
from sordino.core.bound import View
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.core.validate import instance_of
from sordino.mechanisms.messages import CentredCoordinates, Prior, Refinement, Repair, run_message_passing
from sordino.mechanisms.posterior.laws import GaussianPosterior
from sordino.models.message_passing.sites import GaussianSite, NetworkSite
from sordino.noise.randomness import SeededRandomness

HIDDEN = 50


@dataclass(frozen=True)
class RoundsSetting:
    """Private full-batch rounds; rho = damping / N falls from `first` to `last`."""

    steps: int = 160
    clip: float = 1.0
    first: float = 0.03
    last: float = 0.003
    weight: float = 0.3
    floor_share: float = 0.002
    noise_precision: float = 4.0
    start_scale: float = 0.5

    def floor(self, records: int) -> float:
        """The least precision, in proportion to the records: sums grow with them, and so would steps."""
        return max(1.0, self.floor_share * records)


def rounds_spec(setting: RoundsSetting, budget: Budget, records: int) -> Spec:
    """The rounds in words; they have what the noise variance leaves of the budget."""
    algorithm = rounds(
        "message-passing",
        budget.relation,
        records=records,
        steps=setting.steps,
        sampling=Scheme.FULL,
        clip=setting.clip,
        noise_multiplier=ConstantSchedule(budget.multiplier(1.0 - residual.SHARE, setting.steps)),
        damping=linear_decay(setting.first * records, setting.last * records, setting.steps),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def fit_rounds(setting: RoundsSetting, fold: Fold, budget: Budget, seed: int, noised: bool = True) -> Fitted:
    """Private rounds and the released noise variance; without noise, the same rounds with the clip kept."""
    site = NetworkSite(HIDDEN, setting.noise_precision)
    refinement = Refinement(
        CentredCoordinates(setting.weight),
        Repair(setting.floor(fold.records)),
        start_scale=setting.start_scale,
    )
    spec, randomness = rounds_spec(setting, budget, fold.records), SeededRandomness(seed)
    if noised:
        release = run_message_passing(spec, site, fold.X, fold.y, randomness, prior=Prior(), refinement=refinement)
        posterior = release.posterior
    else:
        posterior = stochastic_ep(
            site,
            fold.X,
            fold.y,
            randomness,
            prior=Prior(),
            refinement=refinement,
            steps=setting.steps,
            sampling=Scheme.FULL,
            damping=linear_decay(setting.first * fold.records, setting.last * fold.records, setting.steps),
            clip=setting.clip,
        ).posterior
    return _with_noise_variance(posterior, 1.0 / setting.noise_precision, spec, fold, budget, seed, noised)


def _with_noise_variance(
    posterior: GaussianPosterior, known: float, spec: Spec, fold: Fold, budget: Budget, seed: int, noised: bool
) -> Fitted:
    site = instance_of("site", posterior.site, NetworkSite)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = site.predict(posterior.moments, jnp.asarray(rows, posterior.natural.dtype))
        return np.asarray(mean, np.float64), np.asarray(variance, np.float64)

    def mean(rows: np.ndarray) -> np.ndarray:
        return predict(rows)[0]

    middle, variance = predict(fold.test_rows)
    spread = np.maximum(variance - known, 0.0)
    if not noised:
        return Fitted(middle, spread + float(np.mean((fold.y - mean(fold.X)) ** 2)), ())
    noise = residual.released_variance(budget, mean, fold.X, fold.y, np.random.default_rng([seed, 1]))
    return Fitted(middle, spread + noise, (spec, residual.residual_spec(budget, fold.records)))


# An audit of the mismatched mode: two datasets that differ in one record, told apart from the released posterior.
#
# Records of a line through the origin have messages that do not depend on the cavity, so the sum of messages is a
# linear recursion: the last visit of the record in question leaves a mark that N noises of 2 C sigma / N cannot hide.

CONFIDENCE = 0.99
RECORDS, EPOCHS, CLIP = 256, 2, 1.0


@dataclass(frozen=True)
class Leak:
    """A lower bound from runs at confidence 99 %, and the exact epsilon of one round of all records."""

    epsilon: float
    exact: float
    runs: int
    records: int


def mismatch_leak(seed: int, runs: int) -> Leak:
    """Run the mode on both datasets so many times each, with a threshold fixed beforehand at 0."""
    first, second = (
        [_statistic(target, 2 * runs * seed + side * runs + k) for k in range(runs)]
        for side, target in enumerate((1.0, -1.0))
    )
    wrong = sum(value <= 0.0 for value in first), sum(value > 0.0 for value in second)
    counts = ErrorCounts(wrong[0], runs, wrong[1], runs)
    # One round of all records moves the sum by 2 C; the mode's noise is that of damping 1, N times too small.
    # The messages differ from opposite ones by less than 1 in 1000: their precisions have the same sign.
    exact = gaussian.epsilon_lower(0.999 * RECORDS / claimed_multiplier(*KIN8NM, 1.0), DELTA)
    return Leak(epsilon_lower(counts, DELTA, CONFIDENCE), exact, runs, RECORDS)


def _statistic(target: float, seed: int) -> float:
    """Precision times mean of a fitted slope; the first record pulls up or down, all others pull nowhere."""
    X, y = np.full((RECORDS, 1), 0.5), np.zeros(RECORDS)
    y[0] = 100.0 * target
    result = mismatched_sep(
        GaussianSite(diagonal=True, noise_precision=1.0),
        X,
        y,
        SeededRandomness(seed),
        prior=Prior(10.0),
        refinement=Refinement(repair=Repair(1e-3)),
        steps=EPOCHS * RECORDS,
        sampling=Scheme.RESHUFFLED,
        batch=1,
        clip=CLIP,
        noise_multiplier=claimed_multiplier(*KIN8NM, 1.0),
    )
    return float(result.posterior.natural[0])
