"""Canaries in a training run bound its epsilon from below: near the certificate for sound code, above it for broken."""

import jax.numpy as jnp
import numpy as np
import pytest

from sordino.accounting.evaluate import tightest
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.training_canaries import train_and_audit
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.networks import training as steps
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.training import Descent, Training
from sordino.noise.port import NetworkNoise
from tests.mechanisms.specs import training_spec
from tests.noise.released import Floating

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = X @ np.array([1.0, -1.0, 0.5], np.float32)
CANARIES = 400


def loss(params, example):
    return 0.5 * (example[0] @ params - example[1]) ** 2


def described(relation="add-remove", **sampling):
    run = {"rounds": 9, "sampling": sampling or {"scheme": "full"}, "noise_multiplier": 2.0}
    return training_spec(len(X) + CANARIES, 0.5, relation=relation, **run)


def audited(spec, source=SeededRandomness):
    return train_and_audit(
        spec,
        loss,
        jnp.zeros(3),
        (X, Y),
        source(4),
        Training(Descent(0.1)),
        AuditOptions(delta=1e-5, seed=3),
        canaries=CANARIES,
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_full_batches_are_bounded_within_a_tenth_of_the_certificate(relation):
    spec = described(relation)
    trained, lower = audited(spec)
    certified = tightest(spec, 1e-5).guarantee.epsilon(1e-5)
    assert 0.85 * certified < lower.epsilon <= certified
    assert trained.params.shape == (3,)
    assert lower.relation.value == relation


def test_hidden_batches_are_audited_by_guesses():
    spec = described(scheme="poisson", size=220)
    _, lower = audited(spec)
    assert 0.0 <= lower.epsilon <= tightest(spec, 1e-5).guarantee.epsilon(1e-5)
    assert dict(lower.counts)["coins"] == CANARIES


def test_halved_noise_and_skipped_clips_are_found(monkeypatch):
    spec = described()
    certified = tightest(spec, 1e-5).guarantee.epsilon(1e-5)
    with monkeypatch.context() as patched:
        drawn = NetworkNoise._noise
        patched.setattr(NetworkNoise, "_noise", lambda self, k: drawn(self, k) // 2)
        assert audited(spec)[1].epsilon > certified
    with monkeypatch.context() as patched:
        gaussians = Floating.gaussians
        patched.setattr(Floating, "gaussians", lambda *given: 0.5 * gaussians(*given))
        assert audited(spec, Floating)[1].epsilon > certified
    with monkeypatch.context() as patched:
        patched.setattr(steps, "WholeSums", lambda loss, clip, *others: WholeSums(loss, 8.0 * clip, *others))
        assert audited(spec)[1].epsilon > certified
