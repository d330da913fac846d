"""The CUDA kernel makes the steps of the compiled program: on the host, and on a device where there is one."""

import ctypes
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papers.heller_fetaya import lenet_on_cuda, network_audit
from papers.heller_fetaya.fleet import Compiled, FanInStart, FleetRecords, Members, Replacement, train_fleet
from papers.heller_fetaya.lenet import LeNet5
from papers.heller_fetaya.lenet_on_cuda import LeNetOnCuda, train_with_kernel
from papers.tests import small_network
from sordino.auditing.fleet import FleetNetwork, FleetPlan, KeyPurpose, gaussians, member_keys, network_for
from sordino.core.spec import Batch, Scheme
from sordino.models.families.networks import MLPClassification

HERE = Path(__file__).parent / "cuda_on_host"
MODELS, STEPS, RECORDS, FIRST_STEP = 1, 2, 9, 7
ETA, TAU, DECAY, DIM = 0.2, 0.01, 0.1, 61706
# Between the shortest and the longest gradient of the test, so that some are clipped and some are not.
CLIP_NORM = 6.3


KINDS = {
    "plain": (LeNet5(), None),
    "clipped": (LeNet5(), CLIP_NORM),
    "rectified": (LeNet5("relu"), None),
    "rectified, clipped": (LeNet5("relu"), 2.0),
}
Built = tuple[ctypes.CDLL, LeNet5, float | None]


@pytest.fixture(scope="module", params=KINDS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The kernel for the host, the network it trains, and the norm that it clips gradients to."""
    model, clip_norm = KINDS[request.param]
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ here to compile the kernel for the host")
    made = tmp_path_factory.mktemp("kernel") / "lenet.so"
    flags = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", f'-DKERNEL="{lenet_on_cuda.SOURCE}"']
    flags += [f"-D{name}={value}" for name, value in lenet_on_cuda.macros(model, clip_norm, DIM).items()]
    subprocess.run([compiler, *flags, str(HERE / "lenet_on_host.cpp"), "-x", "c++", "-o", str(made)], check=True)
    return ctypes.CDLL(str(made)), model, clip_norm


@pytest.mark.slow
def test_the_kernel_makes_the_steps_of_the_compiled_program_but_for_rounding(built: Built) -> None:
    library, model, clip_norm = built
    generator = np.random.default_rng(0)
    network = network_for(model, 784)
    images = (generator.random((RECORDS, 784)) * (generator.random((RECORDS, 784)) < 0.3)).astype(np.float32)
    labels = generator.integers(0, 10, RECORDS).astype(np.int32)
    start = (0.1 * generator.normal(size=(MODELS, network.dim))).astype(np.float32)
    orders = generator.integers(0, RECORDS, (MODELS, STEPS, 4)).astype(np.int32)
    words = member_keys(3, jnp.arange(MODELS, dtype=jnp.uint32), KeyPurpose.NOISE)
    keys = np.stack([np.asarray(word) for word in words], axis=1).copy()
    found = np.zeros((MODELS, lenet_on_cuda._STRIDE), np.float32)
    found[:, : network.dim] = start
    arrays = (found, images, labels, orders, keys)
    library.lenet_on_host(
        *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays),
        ctypes.c_uint32(FIRST_STEP),
        STEPS,
        *(ctypes.c_float(value) for value in (ETA / 4, ETA * DECAY, TAU)),
        MODELS,
    )
    step = jax.jit(lambda parts, X, y, k: _step(network, clip_norm, words, parts, X, y, k))
    parts = network.split(jnp.asarray(start))
    for k in range(STEPS):
        chosen = orders[:, k]
        parts = step(parts, jnp.asarray(images)[chosen], jnp.asarray(labels)[chosen], jnp.uint32(FIRST_STEP + k))
    expected = np.asarray(network.join(parts))
    assert np.abs(expected - start).max() > 0.05
    np.testing.assert_allclose(found[:, : network.dim], expected, atol=1e-6)


@pytest.mark.slow
def test_the_kernel_takes_the_shared_memory_it_is_launched_with(built: Built) -> None:
    library, _, clip_norm = built
    library.memory_bytes.restype = ctypes.c_long
    launched = lenet_on_cuda._SHARED_BYTES if clip_norm is None else lenet_on_cuda._CLIPPED_SHARED_BYTES
    assert library.memory_bytes() == launched


@dataclass(frozen=True)
class Card:
    """What is asked of a device before the kernel is used."""

    platform: str = "gpu"
    compute_capability: str = "9.0"


FITS = FleetPlan(0.05, 0.01, Batch(Scheme.CYCLIC, 4), 1, seed=3, start=FanInStart())
LENET = network_for(LeNet5(), 784)
OTHERS: dict[str, tuple[FleetNetwork, FleetPlan, int, Card]] = {
    "another network": (network_for(MLPClassification((4,), classes=10), 784), FITS, 100, Card()),
    "an activation that it has not": (network_for(LeNet5("softplus"), 784), FITS, 100, Card()),
    "batches of five": (LENET, replace(FITS, batch=Batch(Scheme.CYCLIC, 5)), 100, Card()),
    "a last batch that is not full": (LENET, FITS, 102, Card()),
    "a processor": (LENET, FITS, 100, Card("cpu")),
    "an earlier card": (LENET, FITS, 100, Card(compute_capability="8.9")),
}


def test_the_kernel_trains_lenet_in_batches_of_four_on_cards_that_have_room(monkeypatch) -> None:
    monkeypatch.setattr(lenet_on_cuda, "available", lambda: True)
    assert LeNetOnCuda.applies(LENET, FITS, 100, Card())
    assert LeNetOnCuda.applies(network_for(LeNet5("relu"), 784), replace(FITS, clip_norm=2.0), 100, Card())
    assert [name for name, given in OTHERS.items() if LeNetOnCuda.applies(*given)] == []
    monkeypatch.setattr(lenet_on_cuda, "available", lambda: False)
    assert not LeNetOnCuda.applies(LENET, FITS, 100, Card())


class Counted(Compiled):
    """The compiled program, which says where it was used."""

    used = 0

    def epoch(self, *given):
        Counted.used += 1
        return super().epoch(*given)


def test_the_audit_of_a_network_is_trained_by_the_kernel_where_it_applies(monkeypatch) -> None:
    """The numbers are those of the package's fleet, which the audit uses everywhere else."""
    data, setting, model = small_network.data(), small_network.setting(), small_network.MODEL
    members, records = Members.of_one(3), FleetRecords(data.features, data.target)
    expected = train_fleet(model, records, setting.plan, members).theta
    assert np.array_equal(train_with_kernel(model, records, setting.plan, members).theta, expected)
    monkeypatch.setattr(Counted, "applies", staticmethod(LeNetOnCuda.applies), raising=False)
    monkeypatch.setattr(lenet_on_cuda, "LeNetOnCuda", Counted)
    train_with_kernel(model, records, setting.plan, members)
    assert Counted.used == 0
    monkeypatch.setattr(Counted, "applies", staticmethod(lambda *given: True))
    assert np.array_equal(train_with_kernel(model, records, setting.plan, members).theta, expected)
    assert Counted.used == setting.plan.epochs
    network_audit.canary_against_ensemble(model, data, setting)
    assert Counted.used == setting.plan.epochs + setting.ensemble_epochs
    named = train_with_kernel(model, records, setting.plan, members, trainer=Compiled)
    assert np.array_equal(named.theta, expected)
    assert Counted.used == setting.plan.epochs + setting.ensemble_epochs


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="there is no NVIDIA GPU here")
@pytest.mark.parametrize("clip_norm", [None, CLIP_NORM], ids=["plain", "clipped"])
def test_on_a_device_the_kernel_agrees_with_the_compiled_program_and_ignores_company(clip_norm: float | None) -> None:
    generator = np.random.default_rng(0)
    images = generator.random((100, 784)) * (generator.random((100, 784)) < 0.2)
    records = FleetRecords(images, generator.integers(0, 10, 100), (Replacement(7, generator.random(784), 3.0),))
    plan = FleetPlan(0.05, 0.01, Batch(Scheme.RESHUFFLED, 4), 1, seed=3, clip_norm=clip_norm, start=FanInStart())
    together, apart = Members.of_both(66), Members((131, 5), (True, False))
    fleets = {
        (kind, members): train_fleet(LeNet5(), records, plan, members, trainer=kind).theta
        for kind, members in ((Compiled, apart), (LeNetOnCuda, apart), (LeNetOnCuda, together))
    }
    assert np.array_equal(fleets[LeNetOnCuda, apart], fleets[LeNetOnCuda, together][[131, 5]])
    assert np.array_equal(fleets[LeNetOnCuda, apart], train_with_kernel(LeNet5(), records, plan, apart).theta)
    np.testing.assert_allclose(fleets[LeNetOnCuda, apart], fleets[Compiled, apart], atol=2e-3)


def _step(network, clip_norm, words, parts, X, y, k):
    total = network.gradient_sum(parts, X, y, jnp.ones(y.shape), clip_norm)
    noise = network.split(gaussians(words, k, network.dim))
    return tuple(
        part - ETA * (sums / 4 + DECAY * part) + TAU * xi for part, sums, xi in zip(parts, total, noise, strict=True)
    )
