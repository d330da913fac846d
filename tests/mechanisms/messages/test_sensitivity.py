"""No record moves a round further than its stated sensitivity, and some record moves it almost that far."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.bound import Relation
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.chain.kernel import slice_of
from sordino.mechanisms.messages import (
    CentredCoordinates,
    Messages,
    NaturalCoordinates,
    Prior,
    RaiseEigenvalues,
    Refinement,
    gains,
)
from sordino.mechanisms.rounds.device import Run, load_table
from sordino.models.message_passing.sites import (
    GammaPrecision,
    GaussianSite,
    MixtureSite,
    NetworkSite,
    ProbitSite,
    PublicPrecision,
)
from sordino.noise.lattice import clipped_total, in_doubles
from tests.mechanisms.messages.conftest import described, executed

RECORDS, FEATURES = 12, 2
SITES = {
    "gaussian": GaussianSite(noise_precision=3.0),
    "gaussian-diagonal": GaussianSite(diagonal=True, noise_precision=3.0),
    "probit": ProbitSite(),
    "mixture": MixtureSite((0.4, 0.6), 0.5),
    "network": NetworkSite(3, PublicPrecision(4.0)),
    "network-gamma": NetworkSite(3, GammaPrecision(6.0, 6.0)),
}
COORDINATES = {"natural": NaturalCoordinates(), "centred": CentredCoordinates(0.1)}
# The fast suite keeps one site of each kind: diagonal, full blocks, and the network.
SLOW = dict.fromkeys(("probit", "gaussian", "network-gamma"), pytest.mark.slow)
# Far from every repair, so that a round is the clipped sum and nothing else; post-processing cannot add anyway.
PRIOR = Prior(200.0)


def setting_of(site, coordinates):
    refinement = Refinement(COORDINATES[coordinates], RaiseEigenvalues(1e-6), start_scale=1.0)
    return Messages(SITES[site], PRIOR, refinement, FEATURES)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(RECORDS, FEATURES)), np.where(rng.uniform(size=RECORDS) < 0.5, -1.0, 1.0)


def adversarial_records(count=60):
    """Ordinary, huge, tiny, sparse and opposite records, and a walk over scales: where clipping can go wrong."""
    rng = np.random.default_rng(1)
    scales = 10.0 ** rng.uniform(-4, 5, count)
    X = rng.normal(size=(count, FEATURES)) * scales[:, None]
    X[::4, 1] = 0.0
    y = rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-2, 4, count)
    return X, y


def sums_of(setting, coordinates_clip, X, y):
    """The clipped sum over single-record datasets, read off a noise-free round through the kernel."""
    coordinates = setting.refinement.coordinates

    with in_doubles() as dtype:
        algorithm = described(1, "full").algorithm
        run = Run(algorithm, 1, FEATURES, np.zeros(6), SeededRandomness(0), dtype)
        moments = jax.jit(lambda: setting.family.moments(setting.kept(setting.first(run))))()

        @jax.jit
        def summed(records):
            rows = slice_of(records, 0, 16)
            parts = coordinates.parts(setting.site, setting.family, moments, rows)
            return clipped_total(parts, rows.present, jnp.asarray(coordinates_clip)).noised(0.0)

        alone = [load_table(X[i : i + 1], y[i : i + 1], np.dtype(np.float32)) for i in range(len(X))]
        return np.asarray([summed(records) for records in alone])


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("site", [pytest.param(name, marks=SLOW.get(name, ())) for name in SITES])
def test_no_record_contributes_more_than_the_clip(site, coordinates):
    """Exact lengths of what a round adds up; two records are then at most 2 C apart."""
    X, y = adversarial_records()
    y = np.sign(y) if site == "probit" else y
    messages = sums_of(setting_of(site, coordinates), 0.3, X, y)
    assert np.isfinite(messages).all()
    lengths = np.linalg.norm(messages, axis=1)
    assert lengths.max() <= 0.3
    apart = np.linalg.norm(messages[:, None] - messages[None], axis=2).max()
    assert apart <= 0.6
    # The search is not idle: some record reaches the clip, and some pair comes near the replace-one sensitivity.
    assert lengths.max() > 0.299
    assert apart > 0.42


@pytest.mark.parametrize(
    ("relation", "sampling"),
    [(Relation.REPLACE_ONE, sampling) for sampling in ("full", "poisson", "without-replacement", "passes")]
    + [(Relation.ADD_REMOVE, sampling) for sampling in ("full", "poisson")],
)
def test_a_round_moves_at_most_by_its_sensitivity(spec, relation, sampling):
    """Replace or remove the first record, same draws otherwise: 2 gamma C / N apart, or gamma C / N, and no more.

    The batches that hold the record are the ones compared, which is the worst case of every scheme. Removal is tried
    where the relation allows it: full and Poisson batches.
    """
    batch = None if sampling == "full" else RECORDS
    described = spec(
        RECORDS, sampling, batch=batch, steps=1, damping=5.0, clip=0.2, relation=relation.value, noise_multiplier=1.0
    )
    algorithm = described.algorithm
    sensitivity = float(gains(algorithm)[0] * algorithm.sensitivity(relation))
    refinement = Refinement(NaturalCoordinates(), RaiseEigenvalues(1e-6))
    setting = Messages(SITES["gaussian-diagonal"], PRIOR, refinement, FEATURES)
    X, y = rows()

    def moved(X, y):
        return np.asarray(executed(setting, algorithm, (X, y), np.zeros(1), seed=3).messages, np.float64)

    X[0], y[0] = (3.0, 0.0), 400.0
    here, worst = moved(X, y), 0.0
    if relation is Relation.REPLACE_ONE:
        for record, target in (((-3.0, 0.0), 400.0), ((0.0, 0.0), 0.0), ((1.0, 1.0), -1.0)):
            other, labels = X.copy(), y.copy()
            other[0], labels[0] = record, target
            worst = max(worst, np.linalg.norm(moved(other, labels) - here))
    else:
        worst = np.linalg.norm(moved(X[1:], y[1:]) - here)
    assert worst <= sensitivity * (1 + 1e-5)  # the comparison itself is made in single precision
    assert worst > 0.99 * sensitivity
