from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sordino.core.spec import Spec
from tests.mechanisms import specs


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(20240917)


@pytest.fixture
def chain_spec() -> Callable[..., Spec]:
    """A noisy gradient spec from a few changes; what is not said is a short full-batch chain on ten records."""

    def build(n: int = 10, dim: int = 1, **changes: Any) -> Spec:
        spec = specs.chain_spec(n, dim, steps=5, step_size=0.2, noise={"kind": "gaussian", "scale": 0.3})
        paths = {"batch", "steps", "step_size", "noise", "start", "keep", "chains", "projection"}
        return spec.with_values({f"algorithm.{key}" if key in paths else key: v for key, v in changes.items()})

    return build
