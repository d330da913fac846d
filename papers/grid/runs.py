"""The runs of the grid."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from papers.round_words import stated_spec
from sordino.core.spec import Spec, read_spec

# One run of the grid: its settings in words, its spec, and how a peer would describe its steps.


@dataclass(frozen=True)
class PeerSteps:
    """Steps in the terms every accountant shares.

    Attributes:
        mechanism: "gaussian", "poisson-add-remove", "poisson-replace-one" or "without-replacement".
        ratio: what one use of the record moves over the noise; of the clip norm alone for both Poisson mechanisms.
        rate: the probability that a step uses the record; 1 for plain Gaussian steps.
        uses: how many such steps are composed.
    """

    mechanism: str
    ratio: float
    rate: float
    uses: int


@dataclass(frozen=True)
class Described:
    """A run of the grid."""

    kind: str
    scheme: str
    problem: str
    projection: str
    noise: str
    steps: int
    rate: float
    spec: Spec
    peer: PeerSteps | None = None


# Noisy gradient chains of the grid: scheme x relation x view x problem x projection x noise x steps x rate.

RECORDS, DIM, STEP_SIZE, RADIUS = 1000, 10, 0.1, 0.005
SENSITIVITY, BOUND, DECAY = 2.0, 1.0, 0.2
# Scheme and relation, the mechanism a peer would name, and whether one use moves by the bound or the sensitivity.
SCHEMES = (
    ("full", "replace-one", "gaussian", SENSITIVITY),
    ("full", "add-remove", "gaussian", BOUND),
    ("cyclic", "replace-one", "gaussian", SENSITIVITY),
    ("shuffle-once", "replace-one", "gaussian", SENSITIVITY),
    ("reshuffled", "replace-one", "gaussian", SENSITIVITY),
    ("without-replacement", "replace-one", "without-replacement", SENSITIVITY),
    ("poisson", "replace-one", "poisson-replace-one", BOUND),
    ("poisson", "add-remove", "poisson-add-remove", BOUND),
)
VIEWS = ("last-iterate", "all-iterates")
RATES = (0.1, 0.02)
# What one use of the record moves, over the noise of the step.
RATIOS = {"strong": 0.1, "weak": 0.5}
STEPS = (40, 1000)
PROJECTIONS: dict[str, dict[str, Any] | None] = {"none": None, "ball": {"kind": "ball", "radius": RADIUS}}
_CLIPPED = {"gradient_sensitivity": SENSITIVITY, "gradient_bound": BOUND}
_WEIGHT_DECAY = {"strong_convexity": DECAY, "smoothness": DECAY}
# The problem section and the clipping of each kind of problem.
PROBLEMS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "strongly convex": ({**_CLIPPED, "strong_convexity": DECAY, "smoothness": 1.0 + DECAY}, None),
    "convex": ({**_CLIPPED, "strong_convexity": 0.0, "smoothness": 1.0}, None),
    "residuals clipped": (
        {**_CLIPPED, "strong_convexity": DECAY, "smoothness": 1.0 + DECAY, "regulariser": _WEIGHT_DECAY},
        {"kind": "residual", "bound": BOUND},
    ),
    "norm-clipped softmax": (
        {**_CLIPPED, "unclipped_smoothness": 0.5, "regulariser": _WEIGHT_DECAY, "drift_bound": BOUND},
        {"kind": "norm", "bound": BOUND, "classes": 10},
    ),
    "norm-clipped network": (
        {**_CLIPPED, "regulariser": _WEIGHT_DECAY, "drift_bound": BOUND},
        {"kind": "norm", "bound": BOUND},
    ),
}


def chains() -> Iterator[Described]:
    """Every chain of the product; the second rate only for sampled or cut batches of strongly convex problems."""
    for scheme, view, problem, projection, noise, steps, rate in product(
        SCHEMES, VIEWS, PROBLEMS, PROJECTIONS, RATIOS, STEPS, RATES
    ):
        full = scheme[0] == "full"
        if rate != RATES[0] and (full or problem != "strongly convex"):
            continue
        yield _chain(scheme, view, problem, projection, noise, steps, 1.0 if full else rate)


def _chain(
    scheme: tuple[str, str, str, float], view: str, problem: str, projection: str, noise: str, steps: int, rate: float
) -> Described:
    name, relation, mechanism, moved = scheme
    batch, ratio = round(rate * RECORDS), RATIOS[noise]
    section, clipping = PROBLEMS[problem]
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": STEP_SIZE,
                "noise": {"kind": "gaussian", "scale": STEP_SIZE * moved / (batch * ratio)},
                "batch": {"scheme": name, "size": None if name == "full" else batch},
                "clipping": clipping,
                "projection": PROJECTIONS[projection],
            },
            "problem": {"n": RECORDS, "dim": DIM, **section},
            "relation": relation,
            "view": view,
        }
    )
    passes = mechanism == "gaussian"
    peer = PeerSteps(mechanism, ratio, 1.0 if passes else rate, math.ceil(steps * rate - 1e-9) if passes else steps)
    return Described("chain", name, problem, projection, f"{noise} (ratio {ratio:g})", steps, rate, spec, peer)


def further_batches() -> Iterator[Described]:
    """Batches that came later, all iterates seen: random allocation, truncated Poisson, draws with replacement."""
    schemes = (
        ("random-allocation", "add-remove", "gaussian", BOUND),
        ("random-allocation", "replace-one", "gaussian", SENSITIVITY),
        ("truncated-poisson", "add-remove", None, BOUND),
        ("truncated-poisson", "replace-one", None, BOUND),
        ("with-replacement", "replace-one", None, BOUND),
    )
    for (name, relation, mechanism, moved), noise, steps, rate in product(schemes, RATIOS, STEPS, RATES):
        plain = _chain(
            ("poisson", relation, mechanism or "gaussian", moved), VIEWS[1], "convex", "none", noise, steps, rate
        )
        batch: dict[str, Any] = {"scheme": name, "size": round(rate * RECORDS)}
        if name == "truncated-poisson":
            batch["cap"] = 2 * batch["size"]
        spec = plain.spec.with_values({"algorithm.batch": batch})
        # Uses in random places are, to the peer, one Gaussian use a period; the other two it has no event for.
        yield replace(plain, kind="further batches", scheme=name, spec=spec, peer=plain.peer if mechanism else None)


def single_records() -> Iterator[Described]:
    """Shuffled passes whose batches are single records: the others' noise hides whose turn it was."""
    for scheme, records, (noise, ratio), passes in product(
        ("reshuffled", "shuffle-once"), (10_000, 100_000), RATIOS.items(), (1, 2)
    ):
        steps = records * passes
        spec = Spec.from_dict(
            {
                "algorithm": {
                    "kind": "noisy-gradient",
                    "steps": steps,
                    "step_size": STEP_SIZE,
                    "noise": {"kind": "gaussian", "scale": STEP_SIZE * SENSITIVITY / ratio},
                    "batch": {"scheme": scheme, "size": 1},
                },
                "problem": {"n": records, "dim": DIM, **_CLIPPED},
                "relation": "replace-one",
                "view": VIEWS[1],
            }
        )
        peer, words = PeerSteps("gaussian", ratio, 1.0, passes), f"{noise} (ratio {ratio:g})"
        yield Described("single records", scheme, "any", "none", words, steps, 1 / records, spec, peer)


_EXAMPLES = Path(__file__).parents[2] / "examples" / "specs"


def examples() -> Iterator[Described]:
    """Every committed example: single mechanisms, selections, matrices, composites and what else has a theorem."""
    for path in sorted(_EXAMPLES.glob("*.json")):
        spec = read_spec(path)
        steps = getattr(spec.algorithm, "steps", 1)
        yield Described("example", "-", path.stem, "-", "-", steps if isinstance(steps, int) else 1, 1.0, spec)


# Runs of the grid that are not plain Gaussian chains: averages, kept draws, stable noise, posterior draws, rounds.

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
        yield _variation("average", scheme, f"{noise} {scale:g} on the average", steps, changes)


def kept() -> Iterator[Described]:
    """Thinned iterates of one or four chains."""
    for scheme, thin, several in product(_SCHEMES[:2], (50, 200), (1, 4)):
        changes = {
            "algorithm.keep": {"burn_in": 100, "thin": thin},
            "algorithm.chains": several,
            "view": "all-iterates",
        }
        yield _variation(f"kept draws, {several} chains", scheme, f"every {thin}th iterate", 1000, changes)


_RANDOM_USES = {  # word -> what is seen, and the curvature of the objective
    "last iterate": ({"view": "last-iterate"}, 1.2),
    "last iterate, linear losses": ({"view": "last-iterate"}, 0.2),
    "kept draws": ({"view": "all-iterates", "algorithm.keep": {"burn_in": 99, "thin": 200}}, 1.2),
    "kept draws, linear losses": ({"view": "all-iterates", "algorithm.keep": {"burn_in": 99, "thin": 200}}, 0.2),
    "average": (
        {
            "view": "average",
            "average": {"lipschitz": 1.0, "dim": 10, "noise": {"kind": "gaussian", "scale": 0.02}},
        },
        1.2,
    ),
}


def random_uses() -> Iterator[Described]:
    """Chains whose certificate averages over a record's uses: hidden last iterates, kept draws and averages."""
    schemes = (
        ("reshuffled", "replace-one"),
        ("without-replacement", "replace-one"),
        ("poisson", "replace-one"),
        ("poisson", "add-remove"),
    )
    for (scheme, relation), (words, (changes, smoothness)) in product(schemes, _RANDOM_USES.items()):
        decay = {"strong_convexity": 0.2, "smoothness": 0.2}
        more = {"problem.smoothness": smoothness, "problem.regulariser": decay, "relation": relation}
        yield _variation("random uses", scheme, words, 1000, changes | more)


def decaying() -> Iterator[Described]:
    """Step sizes that fall with the step number."""
    for scheme, power, view in product((*_SCHEMES, "reshuffled"), (0.5, 1.0), ("last-iterate", "all-iterates")):
        schedule = {"kind": "polynomial", "initial": 0.5, "offset": 25.0, "power": power}
        changes = {"algorithm.step_size": schedule, "view": view}
        yield _variation("decaying steps", scheme, f"step size falls with power {power:g}", 200, changes)


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
        yield _variation("stable noise", scheme, f"alpha {alpha:g}, scale {scale:g}", steps, changes)


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
        spec = stated_spec(
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


def _variation(kind: str, scheme: str, words: str, steps: int, changes: dict[str, Any]) -> Described:
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
