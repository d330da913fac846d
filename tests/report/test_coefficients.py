"""What the arrays of a release say about each parameter, whatever shape they have."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from sordino.core.spec.instance import NamedModel
from sordino.report.coefficients import FEWEST_FOR_INTERVALS, MOST_PARAMETERS, parameter_names, summarise
from sordino.report.figures import MOST_INTERVALS, intervals_figure
from tests.report.example_releases import columns, gaussians, kept_draws


def test_gaussian_intervals_are_those_of_the_normal():
    summary = summarise(gaussians(arrays={"means": np.array([1.0]), "deviations": np.array([2.0])}))
    assert summary is not None
    (marginal,) = summary.marginals
    assert marginal.outer == pytest.approx((1 - 1.959964 * 2, 1 + 1.959964 * 2), rel=1e-6)
    assert marginal.inner == pytest.approx((1 - 0.6744898 * 2, 1 + 0.6744898 * 2), rel=1e-6)


def test_intervals_of_draws_are_their_quantiles():
    draws = np.random.default_rng(3).normal(size=(2, 500, 1))
    summary = summarise(gaussians(arrays={"draws": draws}))
    assert summary is not None
    (marginal,) = summary.marginals
    assert marginal.outer == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])))


def test_few_draws_have_no_intervals_and_one_draw_no_spread():
    few = summarise(gaussians(arrays={"draws": np.arange(FEWEST_FOR_INTERVALS - 1.0).reshape(1, -1, 1)}))
    one = summarise(gaussians(arrays={"draws": np.ones((1, 1, 2))}))
    assert few is not None
    assert one is not None
    assert few.marginals[0].outer is None
    assert one.marginals[0].deviation is None
    assert "not its mean" in one.sentence


def test_names_come_from_the_schema_with_classes_where_a_model_has_several():
    schema = columns(("age", "visits"), 10)
    release = gaussians(schema=schema)
    assert parameter_names(release, 3) == ("intercept", "age", "visits")
    assert parameter_names(release, 6)[0] == "theta[0]"
    softmax = replace(release, model=NamedModel("softmax"))
    assert parameter_names(softmax, 6)[:3] == ("intercept [0]", "intercept [1]", "age [0]")
    named = replace(softmax, settings={"labels": ["ill", "well"]})
    assert parameter_names(named, 6)[:3] == ("intercept [ill]", "intercept [well]", "age [ill]")
    mixture = replace(release, model=NamedModel("mixture"))
    assert parameter_names(mixture, 6)[:4] == ("intercept [0]", "age [0]", "visits [0]", "intercept [1]")
    assert parameter_names(gaussians(), 2) == ("theta[0]", "theta[1]")


@pytest.mark.parametrize(
    ("arrays", "parameters"),
    [
        ({"draws": np.zeros(3)}, None),
        ({"draws": np.zeros((0, 1, 2))}, None),
        ({"draws": np.ones((30, 2, 3))}, 3),
        ({"something": np.ones(2)}, None),
        ({"means": np.ones(3), "deviations": np.ones(2)}, None),
        ({"means": np.ones(3), "deviations": np.zeros(3)}, 3),
        ({"means": np.ones(2), "covariances": np.eye(2)}, 2),
        ({"means": np.ones(2), "covariances": np.ones(2)}, None),
        ({"means": np.ones((3, 2)), "covariances": np.stack([np.eye(2)] * 3)}, 6),
        ({"averages": np.ones(4)}, 1),
        ({"draws": np.random.default_rng(0).normal(size=(1, 50, 100))}, 100),
        ({"draws": np.random.default_rng(0).normal(size=(1, 30, 50_000))}, 50_000),
        ({"means": np.zeros(50_000), "deviations": np.ones(50_000)}, 50_000),
    ],
)
def test_arrays_of_any_shape_are_drawn_or_left_alone(arrays, parameters):
    summary = summarise(gaussians(arrays=arrays))
    assert (None if summary is None else summary.total) == parameters
    if summary is not None:
        assert len(summary.marginals) == min(summary.total, MOST_PARAMETERS)
        drawn = ET.fromstring(intervals_figure("i", summary.marginals))
        assert len(drawn.findall(".//g/text")) == min(len(summary.marginals), MOST_INTERVALS)


def test_every_mark_lies_inside_the_figure():
    summary = summarise(kept_draws())
    assert summary is not None
    drawn = ET.fromstring(intervals_figure("i", summary.marginals))
    width = float(drawn.get("viewBox", "").split()[2])
    assert all(0 <= float(dot.get("cx", "-1")) <= width for dot in drawn.iter("circle"))
