"""Eight devices train what one device trains, bit for bit."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import jax, numpy as np
from sordino.auditing.fleet.engine import Performance, train_fleet
from sordino.auditing.fleet.plan import FleetPlan, FleetRecords, Members, Replacement
from sordino.core.spec import Batch, Scheme
from sordino.models.families.networks import MLPRegression
generator = np.random.default_rng(0)
records = FleetRecords(generator.normal(size=(12, 2)), generator.normal(size=12), (Replacement(5, np.ones(2), 3.0),))
plan = FleetPlan(0.1, 0.01, Batch(Scheme.RESHUFFLED, 4), 2, seed=3)
members = Members.of_both(40)
model = MLPRegression((3,))
many = train_fleet(model, records, plan, members, performance=Performance(devices=tuple(jax.local_devices())))
one = train_fleet(model, records, plan, members)
print(len(jax.local_devices()), np.array_equal(many.theta, one.theta), len(np.unique(one.theta[:, 0])))
"""


@pytest.mark.slow
def test_eight_devices_train_what_one_device_trains() -> None:
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == ["8", "True", "80"]
