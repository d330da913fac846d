"""The baselines, the refuted bound, the pseudocode and the normalisation of Ye & Shokri."""

import math

import numpy as np
import pytest

from papers.framework.bounds import renyi_of
from papers.framework.item import NotValid, Options, VerdictKind, item_named
from papers.tests.rows_of import columns, table
from papers.ye_shokri import normalisation
from papers.ye_shokri import printed_algorithms as pseudocode
from papers.ye_shokri.ryffel import Sampled, log_sobolev
from sordino.core.spec import Scheme, Spec

QUICK = Options(quick=True, data_dir=None, seed=0)


@pytest.fixture(scope="module")
def baselines():
    return item_named("ye-shokri-baselines").run(QUICK)


@pytest.mark.parametrize("place", ["first", "last"])
def test_no_baseline_is_below_the_exact_value_or_the_shift_bound(baselines, place):
    found = columns(baselines, f"{place}-batch")
    found.pop("epochs")
    exact, shifts = found.pop("exact"), found["shifts"]
    for values in found.values():
        assert all(value >= truth for value, truth in zip(values, exact, strict=True))
        assert all(value >= ours * (1 - 1e-9) for value, ours in zip(values, shifts, strict=True))


def test_the_reference_coefficients(baselines):
    """eta = .02, m = 1, Delta = 4, sigma = .02, l = 10: 3.3 and shifts after 1, 10 and 100 epochs."""
    first, last = (columns(baselines, f"{place}-batch") for place in ("first", "last"))
    assert [first["shifts"][place] for place in (0, 2, 3)] == pytest.approx([0.00166, 0.01260, 0.01645], abs=6e-6)
    assert [last["shifts"][place] for place in (0, 2, 3)] == pytest.approx([0.02, 0.03186, 0.03645], abs=6e-6)
    assert first["Ye & Shokri, 3.3"][3] == pytest.approx(0.02179, abs=6e-6)
    # D.5 charges the same for every pass: u (1 - 2 eta beta lambda / (beta + lambda))^5 / 9 with u = .02.
    assert first["Balle et al., D.5"][3] == pytest.approx(100 * 0.02 * 0.968**5 / 9, rel=1e-6)


def test_the_bound_with_n_squared_is_refuted_by_one_step():
    """Two mixtures on the line, by quadrature: order 10, kappa = 2, one record in ten."""
    run = Sampled(2.0, 1)
    x = np.linspace(-20.0, 40.0, 200_001)
    logs = {centre: -((x - centre) ** 2) / 2 - math.log(2 * math.pi) / 2 for centre in (-1.0, 0.0, 1.0)}
    first, second = (np.logaddexp(math.log(0.9) + logs[0.0], math.log(0.1) + logs[centre]) for centre in (1.0, -1.0))
    divergence = math.log(np.trapezoid(np.exp(10 * first - 9 * second), x)) / 9
    assert run.exact == pytest.approx(divergence, rel=1e-6)
    assert run.exact > 6 * 10 * run.claimed
    assert run.exact_epsilon > run.claimed_epsilon
    assert all(run.valid(theorem) > run.exact for theorem in ("hidden-state.naive", "hidden-state.subsampled"))


def test_the_assumed_log_sobolev_constant_is_nearly_twice_what_is_possible():
    """One step, 1000 records of which half pull each way: the variance of a batch mean, by 20,000 batches."""
    assumed, possible = log_sobolev(1)
    rng = np.random.default_rng(2)
    pulls = np.repeat([-0.5, 0.5], 500)
    means = np.array([rng.choice(pulls, 100, replace=False).mean() for _ in range(20_000)])
    # Standard error of a variance: 1 %, so five of them.
    assert assumed == pytest.approx(1.0)
    assert 1 / possible - 1 == pytest.approx(means.var() * (0.2 * 100) ** 2, rel=0.05)


def test_the_refuted_bound_carries_its_label():
    outcome = item_named("ye-shokri-ryffel").run(QUICK)
    assert all(isinstance(row[2], NotValid) for row in table(outcome, "divergence").rows)


def test_the_pseudocode_without_noise_is_our_chain():
    data = pseudocode.Table.drawn(4)
    written = pseudocode.algorithm_two(data, 0.0, np.arange(pseudocode.RECORDS), np.random.default_rng(0))
    ours = pseudocode.our_chain(data, 1e-9, Scheme.CYCLIC, 1, 0)[0]
    assert np.abs(written).max() > 0.1
    assert written == pytest.approx(ours, abs=1e-5)
    printed = pseudocode.algorithm_two(
        data, 0.0, np.arange(pseudocode.RECORDS), np.random.default_rng(0), as_printed=True
    )
    assert np.abs(printed - written).max() > 0.01


def test_the_noise_multiplier_stands_for_the_noise_of_algorithm_one():
    """tau = sqrt(2 eta) sigma = eta sigma_mul S_g / (2b), and u = eta S_g^2 / (4 sigma^2 b^2) = 2 / sigma_mul^2."""
    sigma = pseudocode.equivalent_sigma(3.0)
    eta, size, batch = pseudocode.STEP_SIZE, pseudocode.SENSITIVITY, pseudocode.BATCH
    assert math.sqrt(2 * eta) * sigma == pytest.approx(eta * 3.0 * size / (2 * batch))
    assert eta * size**2 / (4 * sigma**2 * batch**2) == pytest.approx(2 / 9)


def test_normalisation_has_a_cost_and_the_pipeline_keeps_within_its_budget():
    outcome = item_named("ye-shokri-normalisation").run(QUICK)
    cost = columns(outcome, "cost")
    assert cost["epsilon of the statistics"] == sorted(cost["epsilon of the statistics"], reverse=True)
    assert all(value > 2.0 for value in cost["epsilon if forgotten, training at 2"])
    assert outcome.verdict.kind is VerdictKind.PARAMETERS_NOT_PUBLISHED


def test_the_statistics_move_no_further_than_they_are_charged_for():
    """Worst records of length C: the mean moves by 2C/n, the mean squares by sqrt(2) C^2/n."""
    count, length = 50, normalisation.LENGTH
    rows = np.zeros((count, 4))
    one, other = rows.copy(), rows.copy()
    one[0, 0], other[0, 0] = length, -length
    assert np.linalg.norm(one.mean(0) - other.mean(0)) == pytest.approx(2 * length / count)
    other[0, 0], other[0, 1] = 0.0, length
    gap = np.linalg.norm((one**2).mean(0) - (other**2).mean(0))
    assert gap == pytest.approx(math.sqrt(2) * length**2 / count)
    rng = np.random.default_rng(9)
    for _ in range(500):
        pair = rng.standard_normal((2, 4))
        pair *= (length * rng.uniform(0, 1, 2) / np.linalg.norm(pair, axis=1))[:, None]
        assert np.linalg.norm(pair[0] ** 2 - pair[1] ** 2) <= math.sqrt(2) * length**2 * (1 + 1e-12)
    assert normalisation.cost(2.0).mu == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize("variance", [0.0, 0.01, 1.0, 100.0, "two points"])
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_a_random_start_costs_no_more_than_a_point(variance, steps):
    """The reduction of Appendix D: parabolas whose start has a law of its own, against Theorem D.6 for a point."""
    step, curvature, noise, order = 0.2, 1.0, 0.3, 4.0
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": step,
                "noise": {"kind": "gaussian", "scale": noise},
                "batch": {"scheme": "full"},
            },
            "problem": {
                "n": 1,
                "dim": 1,
                "gradient_sensitivity": 1.0,
                "strong_convexity": curvature,
                "smoothness": curvature,
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    bound = renyi_of("hidden-state.full", spec, order)
    assert bound is not None
    factor = 1 - step * curvature
    gap = step * (1 - factor**steps) / (1 - factor)
    spread = noise**2 * (1 - factor ** (2 * steps)) / (1 - factor**2)
    if variance == "two points":  # a mixture that is not Gaussian, by quadrature
        x = np.linspace(-12.0, 12.0, 400_001)
        centres = factor**steps * np.array([-3.0, 3.0])
        logs = [
            np.logaddexp(*(-((x - centre - shift) ** 2) / (2 * spread) for centre in centres)) for shift in (gap, 0.0)
        ]
        first, second = (one - np.log(np.trapezoid(np.exp(one), x)) for one in logs)
        exact = math.log(np.trapezoid(np.exp(order * first - (order - 1) * second), x)) / (order - 1)
    else:
        exact = order * gap**2 / (2 * (spread + factor ** (2 * steps) * variance))
    assert exact <= bound * (1 + 1e-9)
