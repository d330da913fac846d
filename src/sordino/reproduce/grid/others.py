"""Runs of the grid that are not plain Gaussian chains: averages, kept draws, stable noise, posterior draws, rounds."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from sordino.core.spec import Spec
from sordino.reproduce.grid.described import Described, PeerSteps

_PROBLEM = {"gradient_sensitivity": 2.0, "gradient_bound": 1.0, "strong_convexity": 0.2, "smoothness": 1.2}
_SCHEMES = ("full", "cyclic", "without-replacement")
_MECHANISMS = {
    ("full", "replace-one"): "gaussian",
    ("full", "add-remove"): "gaussian",
    ("passes", "replace-one"): "gaussian",
    ("without-replacement", "replace-one"): "without-replacement",
    ("poisson", "add-remove"): "poisson-add-remove",
    ("poisson", "replace-one"): "poisson-replace-one",
}


def averages() -> Iterator[Described]:
    """The average of a function along a chain, plus noise."""
    for scheme, noise, scale, steps in product(_SCHEMES, ("gaussian", "laplace"), (0.002, 0.02), (100, 1000)):
        average = {
            "lipschitz": 1.0,
            "dim": 1 if noise == "laplace" else 10,
            "noise": {"kind": noise, "scale": scale},
        }
        changes = {"average": average, "view": "average"}
        yield _chain("average", scheme, f"{noise} {scale:g} on the average", steps, changes)


def kept() -> Iterator[Described]:
    """Thinned iterates of one or four chains."""
    for scheme, thin, several in product(_SCHEMES[:2], (50, 200), (1, 4)):
        changes = {
            "algorithm.keep": {"burn_in": 100, "thin": thin},
            "algorithm.chains": several,
            "view": "all-iterates",
        }
        yield _chain(f"kept draws, {several} chains", scheme, f"every {thin}th iterate", 1000, changes)


def decaying() -> Iterator[Described]:
    """Step sizes that fall with the step number."""
    for scheme, power, view in product((*_SCHEMES, "reshuffled"), (0.5, 1.0), ("last-iterate", "all-iterates")):
        schedule = {"kind": "polynomial", "initial": 0.5, "offset": 25.0, "power": power}
        changes = {"algorithm.step_size": schedule, "view": view}
        yield _chain("decaying steps", scheme, f"step size falls with power {power:g}", 200, changes)


def stable() -> Iterator[Described]:
    """Stable noise; the guarantee is a total variation, so delta is large."""
    for scheme, alpha, scale, steps in product(_SCHEMES, (1.2, 1.8, 2.0), (0.01, 0.1), (50, 1000)):
        changes = {
            "algorithm.noise": {"kind": "stable", "alpha": alpha, "scale": scale},
            "algorithm.batch.size": None if scheme == "full" else 3000,
            "problem.n": 30000,
            "problem.gradient_growth": {"g0": 1.0, "g1": 1.0, "at_zero": 0.5},
            "delta": 0.1,
        }
        yield _chain("stable noise", scheme, f"alpha {alpha:g}, scale {scale:g}", steps, changes)


def posterior_draws() -> Iterator[Described]:
    """Exact draws from a posterior."""
    bounded = ({"kind": "bounded", "lipschitz": low, "diameter": far} for low in (0.1, 0.5, 2.0) for far in (0.5, 2.0))
    strong = ({"kind": "strongly-log-concave", "lipschitz": 2.0, "strong_convexity": m} for m in (4.0, 100.0, 2500.0))
    for potential, draws in product((*bounded, *strong), (1, 5)):
        spec = Spec.from_dict(
            {
                "algorithm": {"kind": "posterior-sample", "potential": potential, "draws": draws},
                "relation": "replace-one",
                "view": "one-sample",
            }
        )
        words = ", ".join(f"{name} {value:g}" for name, value in potential.items() if name != "kind")
        yield Described("posterior draws", "-", str(potential["kind"]), "-", words, draws, 1.0, spec)


def rounds() -> Iterator[Described]:
    """Stochastic expectation propagation in rounds."""
    for (sampling, relation), multiplier, steps in product(_MECHANISMS, (2.0, 10.0), (50, 500)):
        batch, records = 100, 5000
        rate = 1.0 if sampling == "full" else batch / records
        spec = Spec.from_dict(
            {
                "algorithm": {
                    "kind": "message-passing",
                    "records": records,
                    "steps": steps,
                    "sampling": sampling,
                    "batch": None if sampling == "full" else batch,
                    "clip": 1.0,
                    "noise_multiplier": multiplier,
                    "damping": 10.0,
                },
                "relation": relation,
                "view": "posterior-parameters",
            }
        )
        # A round's noise is relative to the relation's own sensitivity: twice the clip for replace-one.
        mechanism = _MECHANISMS[sampling, relation]
        ratio = 1 / (2 * multiplier) if mechanism == "poisson-replace-one" else 1 / multiplier
        passes = mechanism == "gaussian"
        uses = math.ceil(steps * rate - 1e-9) if passes else steps
        peer = PeerSteps(mechanism, ratio, 1.0 if passes else rate, uses)
        yield Described("rounds", sampling, "-", "-", f"multiplier {multiplier:g}", steps, rate, spec, peer)


def _chain(kind: str, scheme: str, words: str, steps: int, changes: dict[str, Any]) -> Described:
    full = scheme == "full"
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": 0.1,
                "noise": {"kind": "gaussian", "scale": 0.002 if full else 0.02},
                "batch": {"scheme": scheme, "size": None if full else 100},
            },
            "problem": {"n": 1000, "dim": 10, **_PROBLEM},
            "relation": "replace-one",
            "view": "last-iterate",
        }
    ).with_values(changes)
    return Described(kind, scheme, "strongly convex", "none", words, steps, 1.0 if full else 0.1, spec)
