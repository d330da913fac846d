"""A release holds what its view allows and nothing else, together with the very spec that ran.

Statistical comparisons are made at 5.6 standard errors: a false-alarm rate of 2e-8 each.
"""

from dataclasses import fields

import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core import bound as constants
from sordino.core.bound import Certificate, Evidence
from sordino.core.spec import Scheme
from sordino.core.validate import InputError
from sordino.mechanisms import (
    KeptIterates,
    LastIterate,
    LipschitzFunction,
    NoisedAverage,
    SeededRandomness,
    coordinate,
    parameters,
    run,
)


def average_spec(quadratic, law="laplace", scale=1e-9, dim=2, chains=3, lipschitz=1.0, **algorithm):
    average = {"lipschitz": lipschitz, "dim": dim, "noise": {"kind": law, "scale": scale}}
    values = {"view": "average", "average": average}
    return quadratic.spec(Scheme.RESHUFFLED, 30, chains, **algorithm).with_values(values)


def released(quadratic, spec, seed=6, **options):
    return run(spec, quadratic.model, quadratic.rows, quadratic.target, SeededRandomness(seed), **options)


def test_each_view_has_its_own_release_with_the_spec_that_ran(quadratic):
    specs = {
        LastIterate: (quadratic.spec(Scheme.FULL, 30, 3), {}),
        KeptIterates: (quadratic.spec(Scheme.FULL, 30, 3, keep="all"), {}),
        NoisedAverage: (average_spec(quadratic), {"function": parameters(2)}),
    }
    for kind, (spec, options) in specs.items():
        release = released(quadratic, spec, **options)
        assert type(release) is kind
        assert release.spec is spec
        shown = {"spec", "averages"} if kind is NoisedAverage else {"spec", "iterates"}
        assert {field.name for field in fields(release)} == shown
        assert not hasattr(release, "__dict__")
        values = getattr(release, (shown - {"spec"}).pop())
        assert values.base is None  # not a window into something larger
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.0
        with pytest.raises((AttributeError, TypeError)):
            release.theta = 1.0


def test_the_average_is_that_of_the_kept_iterates(quadratic):
    keep = {"burn_in": 3, "thin": 4}
    kept = released(quadratic, quadratic.spec(Scheme.RESHUFFLED, 30, 3, keep=keep)).iterates
    averages = released(quadratic, average_spec(quadratic, keep=keep), function=parameters(2)).averages
    np.testing.assert_allclose(averages, kept.mean(axis=1), atol=1e-6)
    second = released(quadratic, average_spec(quadratic, dim=1, keep=keep), function=coordinate(1, 2)).averages
    np.testing.assert_allclose(second, kept[:, :, 1:].mean(axis=1), atol=1e-6)
    blocks = released(quadratic, average_spec(quadratic, keep=keep), function=parameters(2), steps_per_block=7).averages
    np.testing.assert_allclose(blocks, averages, atol=1e-6)


@pytest.mark.parametrize(("law", "variance", "fourth"), [("laplace", 2.0, 24.0), ("gaussian", 1.0, 3.0)])
def test_the_noise_of_an_average_has_its_law(quadratic, law, variance, fourth):
    """20,000 chains whose averages hardly vary: what is left is the noise, at scale 5."""
    quiet = {"noise": {"kind": "gaussian", "scale": 1e-6}, "batch": {"scheme": "full"}}
    loud = average_spec(quadratic, law, 5.0, chains=20_000, **quiet)
    values = released(quadratic, loud, function=parameters(2)).averages
    centre = released(quadratic, average_spec(quadratic, law, 1e-9, chains=1, **quiet), function=parameters(2)).averages
    drawn = ((values - centre) / 5.0).ravel()
    assert abs(drawn.mean()) < 5.6 * np.sqrt(variance / drawn.size)
    assert abs(np.mean(drawn**2) - variance) < 5.6 * np.sqrt((fourth - variance**2) / drawn.size)
    exact = {"laplace": 1.0, "gaussian": np.sqrt(2.0 / np.pi)}[law]
    assert abs(np.abs(drawn).mean() - exact) < 5.6 * np.sqrt((variance - exact**2) / drawn.size)


def test_the_averaged_function_has_to_fit_the_spec(quadratic):
    with pytest.raises(InputError, match="averaged function"):
        released(quadratic, average_spec(quadratic))
    with pytest.raises(InputError, match="averaged function"):
        released(quadratic, quadratic.spec(Scheme.FULL, 3, 1), function=parameters(2))
    with pytest.raises(InputError, match=r"average\.dim"):
        released(quadratic, average_spec(quadratic), function=coordinate(0, 2))
    steep = Certificate(constants.AVERAGE_LIPSCHITZ, 3.0, Evidence.PROVED, "three times a coordinate")
    tripled = LipschitzFunction(lambda theta: 3.0 * theta[:1], 1, steep)
    with pytest.raises(InputError, match=r"average\.lipschitz"):
        released(quadratic, average_spec(quadratic, dim=1), function=tripled)
    release = released(quadratic, average_spec(quadratic, dim=1, lipschitz=3.0), function=tripled)
    assert release.averages.shape == (3, 1)


def test_ready_functions_are_lipschitz_as_certified():
    a, b = np.random.default_rng(0).normal(size=(2, 100, 4))
    for function in (parameters(4), coordinate(2, 4)):
        moved = np.array(
            [function.function(jnp.asarray(x)) - function.function(jnp.asarray(y)) for x, y in zip(a, b, strict=True)]
        )
        assert moved.shape == (100, function.dim)
        bound = function.lipschitz.value * np.linalg.norm(a - b, axis=1)
        assert np.all(np.linalg.norm(moved, axis=1) <= bound * (1 + 1e-5))
    with pytest.raises(InputError, match="position"):
        coordinate(4, 4)
