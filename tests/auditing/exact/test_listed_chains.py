"""Exact audits of chains and regression posteriors against laws written out by hand: every batch, every neighbour.

Nothing here uses the laws of the package: batches are listed, steps are followed one by one, and outcomes are counted
in fine cells. Cells hide a little, so a listed law may say a little less than the audit; what it says more is given
away, and an audit that says clearly more is a false alarm.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sordino import InputError, Spec
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods.exact import exact
from tests.accounting.described import described
from tests.auditing.chains import chain
from tests.auditing.exact.test_brute_force import epsilon

DELTA = 1e-3
EDGES = np.concatenate([[-np.inf], np.linspace(-24.0, 24.0, 1201), [np.inf]])


def audited(spec):
    return exact(spec, AuditOptions(delta=DELTA)).epsilon


def batches(scheme, n, size, steps, rate=0.5):
    """Every sequence of batches (record numbers, with repetitions) and its probability."""
    everybody = tuple(range(n))
    match scheme:
        case "full":
            return [((everybody,) * steps, 1.0)]
        case "cyclic":
            return [(tuple(everybody[start : start + size] for start in range(0, n, size)) * (steps * size // n), 1.0)]
        case "shuffle-once" | "reshuffled":
            orders = list(itertools.permutations(everybody))
            passes = [tuple(order[start : start + size] for start in range(0, n, size)) for order in orders]
            count = steps * size // n
            if scheme == "shuffle-once":
                return [(one * count, 1 / len(passes)) for one in passes]
            joined = itertools.product(passes, repeat=count)
            return [(sum(several, ()), len(passes) ** -count) for several in joined]
        case "without-replacement":
            each = [(batch, 1.0) for batch in itertools.combinations(everybody, size)]
        case "with-replacement":
            each = [(batch, 1.0) for batch in itertools.product(everybody, repeat=size)]
        case "poisson":
            subsets = [batch for k in range(n + 1) for batch in itertools.combinations(everybody, k)]
            each = [(batch, rate ** len(batch) * (1 - rate) ** (n - len(batch))) for batch in subsets]
    total = math.fsum(weight for _, weight in each)
    return [
        (tuple(batch for batch, _ in several), math.prod(weight / total for _, weight in several))
        for several in itertools.product(each, repeat=steps)
    ]


def followed(patterns, step, power=2.0):
    """Location and scale of the last iterate for each pattern: theta -> a theta + o, scales add as powers.

    `step` gives a, o and the noise of a step from its batch.
    """
    found = {}
    for pattern, weight in patterns:
        location = spread = 0.0
        for batch in pattern:
            factor, offset, noise = step(batch)
            location = factor * location + offset
            spread = abs(factor) ** power * spread + noise**power
        key = (round(location, 12), round(spread ** (1 / power), 12))
        found[key] = found.get(key, 0.0) + weight
    assert math.fsum(found.values()) == pytest.approx(1.0, abs=1e-9)
    return found


def in_cells(components, distribution=stats.norm.cdf, unit=1.0):
    """The probabilities of cells a small part of `unit` wide."""
    at, spread = (np.array([component[part] for component in components])[:, None] for part in (0, 1))
    return np.array(list(components.values())) @ np.diff(distribution((EDGES * unit - at) / spread), axis=1)


def spec_of(scheme, relation, *, size=2, noise=0.1, view="last-iterate", instance=None, **problem):
    own = None if scheme == "full" else size
    named = {"relation": relation, "view": view, "instance": instance}
    return chain(scheme, own, steps=2, noise=noise, **named, **{"n": 4} | problem)


SCHEMES = ("full", "cyclic", "shuffle-once", "reshuffled", "without-replacement", "with-replacement", "poisson")


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [
        *((scheme, "replace-one") for scheme in SCHEMES if scheme != "poisson"),
        pytest.param("poisson", "replace-one", marks=pytest.mark.slow),
        ("full", "add-remove"),
        ("poisson", "add-remove"),
    ],
)
def test_a_ridge_chain_by_every_batch(scheme, relation):
    """The laws on the instance's own neighbours; the curvature of a batch is that of the records in it."""
    decay, n, size, steps, noise = 0.3, 4, 2, 2, 1.0
    problem = {"gradient_sensitivity": 4.0, "gradient_bound": 2.0, "strong_convexity": decay, "smoothness": 2.0}
    problem["regulariser"] = {"strong_convexity": decay, "smoothness": decay}
    instance = {
        "model": {"name": "ridge", "parameters": {"weight_decay": decay}},
        "dataset": {"kind": "synthetic", "generator": "linear", "records": n, "features": 1, "seed": 3},
        "neighbour": {"kind": "worst", "position": 1},
    }
    spec = spec_of(scheme, relation, noise=noise, instance=instance, **problem)
    divisor = n if scheme == "full" else size

    def law(data):
        x, y = data.features[:, 0], data.target

        def step(batch):
            chosen = list(batch)
            curvature = (x[chosen] ** 2).sum() / divisor + decay
            return 1 - 0.4 * curvature, 0.4 * (x[chosen] * y[chosen]).sum() / divisor, noise

        return in_cells(followed(batches(scheme, len(x), size, steps), step), unit=noise)

    listed = max(epsilon(law(pair.first), law(pair.second)) for pair in audit_instance(spec).pairs())
    assert audited(spec) == pytest.approx(listed, rel=2e-3)


@cache
def stable_distribution(tail_index):
    """The distribution function with characteristic function exp(-|u|^tail_index), by integrating it."""
    points, u = np.linspace(0.0, 40.0, 2001), np.linspace(0.0, 14.0, 7001)[1:]
    width = u[1] - u[0]
    weights = width * np.exp(-(u**tail_index)) / u / math.pi
    weights[-1] /= 2
    # At u = 0 the integrand is x / pi, and half a step of it is missing.
    values = np.array([0.5 + float(weights @ np.sin(u * x)) + width / 2 * x / math.pi for x in points])

    def distribution(x):
        above = np.interp(np.abs(x), points, values, right=1.0)
        return np.where(x < 0, 1 - above, above)

    return distribution


CASES = [(scheme, "replace-one") for scheme in ("cyclic", "shuffle-once", "with-replacement")]
CASES += [("poisson", "add-remove")]
LONGER = [(scheme, "replace-one") for scheme in ("full", "reshuffled", "without-replacement", "poisson")]
CASES += [pytest.param(*case, marks=pytest.mark.slow) for case in (*LONGER, ("full", "add-remove"))]


@pytest.mark.every(2)
@pytest.mark.parametrize(("scheme", "relation"), CASES)
def test_an_extremal_chain_with_stable_noise_by_every_batch(scheme, relation):
    """Records pull by 1 or -1, or not at all; the decay is 0.5; the last iterate is seen.

    The odd record pulls both ways, or one way and is left out; the others rest.
    """
    n, size, scale = 4, 2, 0.3
    problem = {"gradient_sensitivity": 2.0, "gradient_bound": 1.0, "strong_convexity": 0.5, "smoothness": 0.5}
    spec = spec_of(scheme, relation, noise={"kind": "stable", "alpha": 1.6, "scale": scale}, **problem)
    divisor = n if scheme == "full" else size

    def law(pulls):
        def step(batch):
            return 1 - 0.4 * 0.5, 0.4 * sum(pulls[record] for record in batch) / divisor, scale

        components = followed(batches(scheme, len(pulls), size, 2), step, 1.6)
        return in_cells(components, stable_distribution(1.6), unit=scale)

    if relation == "add-remove":
        pairs = [([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0])]
    else:
        pairs = [([1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]), ([0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, -1.0])]
    listed = max(epsilon(law(first), law(second)) for first, second in pairs)
    assert audited(spec) == pytest.approx(listed, rel=1e-2)


@pytest.mark.parametrize("kind", ["rounds", "steps"])
def test_draws_with_replacement_under_add_remove_are_refused(kind):
    sums = {"kind": "noised-sums", "query": "sums", "records": 4, "rounds": 2, "contribution": 1.0}
    sums |= {"noise_multiplier": 6.0, "sampling": {"scheme": "with-replacement", "size": 2}}
    spec = Spec.from_dict({"algorithm": sums, "relation": "add-remove", "view": "all-iterates"})
    if kind == "steps":
        spec = spec_of("with-replacement", "add-remove", view="all-iterates", gradient_bound=1.0)
    with pytest.raises(InputError, match="replace-one"):
        audited(spec)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_rate_of_its_own_leaves_records_out_of_a_round_of_any_size(relation):
    """The divisor is the number of records, the rate a quarter: sums hold a record in one round of four."""
    sums = {"kind": "noised-sums", "query": "sums", "records": 40, "rounds": 1, "contribution": 1.0}
    sums |= {"sampling": {"scheme": "poisson", "size": 40, "rate": 0.25}, "noise_multiplier": 0.6}
    spec = Spec.from_dict({"algorithm": sums, "relation": relation, "view": "all-iterates"})
    first = in_cells({(0.0, 1.0): 0.75, (1 / 0.6, 1.0): 0.25})
    second = in_cells({(0.0, 1.0): 1.0} if relation == "add-remove" else {(0.0, 1.0): 0.75, (-1 / 0.6, 1.0): 0.25})
    assert audited(spec) == pytest.approx(epsilon(first, second), rel=5e-3)


@pytest.mark.parametrize("c", [0.0, 4.0])
def test_a_regression_posterior_by_every_table_on_a_lattice(c):
    """Tables of five records: the first differs, the others are alike; prior times likelihood, point by point."""
    prior, precision, low, high, n, gamma = 2.0, 1.5, 0.9, 1.8, 5, 0.2
    spread = n**gamma
    theta = np.linspace(-8.0, 12.0, 8_001)

    def posterior(records):
        log = -prior / 2 * theta**2 - precision / 2 * sum(times * (y - theta * x) ** 2 for x, y, times in records)
        law = np.exp(log - log.max())
        return law / law.sum()

    slopes = np.linspace(max(0.0, c - spread), c + spread, 3)
    lattice = [(x, slope * x) for x in (low, (low + high) / 2, high) for slope in slopes]
    listed = max(
        epsilon(posterior([(*common, n - 1), (*first, 1)]), posterior([(*common, n - 1), (*second, 1)]))
        for common in lattice
        for first, second in itertools.combinations(lattice, 2)
    )
    potential = {"kind": "linear-regression", "alpha": prior, "beta": precision, "gamma1": gamma}
    potential |= {"x_low": low, "x_high": high, "c": c}
    spec = described("posterior-sample", "replace-one", "one-sample", potential=potential, problem={"n": n})
    assert audited(spec) == pytest.approx(listed, rel=1e-3)
