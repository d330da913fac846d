"""Runs below the estimators, each with a small private table: what is recorded is the run that a user starts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from papers.round_words import stated_spec
from papers.vinaroz_park.natural_gradients import NaturalRule, SkipNetwork, run_natural_gradients
from sordino.core.bound import Relation
from sordino.core.spec import NoisedSums, NoisyGradient, Scheme, Spec
from sordino.core.validate import instance_of
from sordino.mechanisms import Randomness, messages, parameters, run
from sordino.mechanisms.mixture import EmOptions, run_em
from sordino.mechanisms.variational.evidence_bound import PointMass, VariationalOptions, run_variational
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.networks import MLPRegression
from sordino.models.families.regression import GaussianLinear, GaussianMixture
from sordino.models.message_passing.sites import GaussianSite, NetworkSite
from tests.auditing.chains import chain

RECORDS, WIDTH, CLIP = 24, 3, 0.25


@dataclass(frozen=True)
class Engine:
    """A described run and how it is started; `start` answers with what leaves.

    Attributes:
        targets: what targets a record may have.
        reached: the share of the plan that some neighbour reaches, under replace-one and add-remove.
        recorded: how many of the records are recorded from; all are replayed.
    """

    name: str
    spec: Spec
    start: Callable[[Spec, np.ndarray, np.ndarray, Randomness], dict[str, Any]]
    targets: tuple[float, ...] = (-1.0, 1.0)
    reached: tuple[float, float] = (0.95, 0.95)
    recorded: int = 2

    @property
    def sampled(self) -> bool:
        """Whether steps use only some of the records."""
        algorithm = self.spec.algorithm
        if isinstance(algorithm, NoisedSums):
            return algorithm.sampling.scheme is not Scheme.FULL
        return instance_of("algorithm", algorithm, NoisyGradient).batch.scheme is not Scheme.FULL

    @property
    def steps(self) -> int:
        """How many sums are noised."""
        algorithm = self.spec.algorithm
        if isinstance(algorithm, NoisedSums):
            return algorithm.rounds
        return instance_of("algorithm", algorithm, NoisyGradient).steps

    def under(self, relation: Relation) -> "Engine":
        return replace(self, spec=self.spec.with_values({"relation": relation.value}))


def _rounds(kind: str, sampling: str, steps: int = 6, **algorithm: Any) -> Spec:
    view = algorithm.pop("view", "all-iterates")
    described = {
        "kind": kind,
        "records": RECORDS,
        "steps": steps,
        "sampling": sampling,
        "clip": CLIP,
        "noise_multiplier": 2.0,
    } | algorithm
    if sampling != "full":
        described["batch"] = RECORDS // 3 if described["records"] == RECORDS else 1
    return stated_spec({"algorithm": described, "relation": "replace-one", "view": view})


def _chain(scheme: str, dim: int, steps: int = 6, view: str = "all-iterates", **algorithm: Any) -> Spec:
    size, stated = None if scheme == "full" else 8, {"clipping": {"kind": "norm", "bound": CLIP}, "keep": "all"}
    noise = {"kind": "laplace", "scale": 0.1}
    average = {"lipschitz": 1.0, "dim": dim, "noise": noise} if view == "average" else None
    problem = {"n": RECORDS, "dim": dim, "gradient_sensitivity": 2 * CLIP, "gradient_bound": CLIP}
    run = {"steps": steps, "step_size": 0.5, "noise": 0.05, "view": view}
    return chain(scheme, size, **run, algorithm=stated | algorithm, average=average, **problem)


def _of_chain(model: Any, function: Any = None) -> Callable[..., dict[str, Any]]:
    def start(spec: Spec, X: np.ndarray, y: np.ndarray, randomness: Randomness) -> dict[str, Any]:
        release = run(spec, model, X, y, randomness, function=function)
        return {"left": np.asarray(getattr(release, "iterates", None) if function is None else release.averages)}

    return start


def _of_variational(model: Any, options: VariationalOptions) -> Callable[..., dict[str, Any]]:
    def start(spec: Spec, X: np.ndarray, y: np.ndarray, randomness: Randomness) -> dict[str, Any]:
        release = run_variational(spec, model, X, y, randomness, options=options)
        return {"phi": np.asarray(release.phi), "iterates": np.asarray(release.iterates)}

    return start


def _em(spec: Spec, X: np.ndarray, y: np.ndarray, randomness: Randomness) -> dict[str, Any]:
    model = GaussianMixture(weights=(0.5, 0.5), spread=0.5)
    release = run_em(spec, model, X, randomness, options=EmOptions(learn_weights=True))
    return {name: np.asarray(getattr(release, name)) for name in ("means", "weights", "counts", "iterates")}


def _of_messages(site: Any, coordinates: Any) -> Callable[..., dict[str, Any]]:
    def start(spec: Spec, X: np.ndarray, y: np.ndarray, randomness: Randomness) -> dict[str, Any]:
        refinement = messages.Refinement(coordinates, messages.Repair(1e-6), start_scale=1.0)
        release = messages.run_message_passing(
            spec, site, X, y, randomness, prior=messages.Prior(20.0), refinement=refinement
        )
        return {"natural": np.asarray(release.natural), "iterates": np.asarray(release.iterates)}

    return start


def _natural(spec: Spec, X: np.ndarray, y: np.ndarray, randomness: Randomness) -> dict[str, Any]:
    rule = NaturalRule(reference_rows=64)
    return {"theta": run_natural_gradients(spec, SkipNetwork(2), X, y, randomness, rule=rule).theta}


_CLASSES = (0.0, 1.0, 2.0)
# Responsibilities and squares have one sign: no record contributes the opposite of another, and 1 / sqrt 2 is reached.
_SQUARES = (0.7, 0.95)
_NETWORK = MLPRegression(hidden=(2,), noise_precision=50.0)
ENGINES = {
    engine.name: engine
    for engine in (
        Engine("chain-full", _chain("full", WIDTH), _of_chain(Logistic())),
        Engine(
            "chain-cyclic-residual-clip-two-projected",
            _chain(
                "cyclic",
                WIDTH,
                chains=2,
                clipping={"kind": "residual", "bound": CLIP},
                projection={"kind": "ball", "radius": 0.15},
            ),
            _of_chain(Logistic(weight_decay=0.1)),
        ),
        Engine(
            "chain-without-replacement",
            _chain("without-replacement", 3 * WIDTH),
            _of_chain(Softmax(classes=3)),
            _CLASSES,
        ),
        Engine("chain-poisson", _chain("poisson", WIDTH), _of_chain(GaussianLinear())),
        Engine("chain-reshuffled-network", _chain("reshuffled", 11), _of_chain(_NETWORK)),
        Engine(
            "chain-averaged",
            _chain("full", WIDTH, view="average", keep={"burn_in": 2, "thin": 1}),
            _of_chain(Logistic(), parameters(WIDTH)),
        ),
        Engine(
            "variational-full",
            _rounds("variational", "full", step_size=0.05),
            _of_variational(_NETWORK, VariationalOptions()),
        ),
        Engine(
            "variational-poisson",
            _rounds("variational", "poisson", step_size=0.05),
            _of_variational(Logistic(), VariationalOptions()),
        ),
        Engine(
            "variational-passes-point",
            _rounds("variational", "passes", step_size=0.05),
            _of_variational(Softmax(classes=3), VariationalOptions(family=PointMass())),
            _CLASSES,
        ),
        Engine("em-full", _rounds("em", "full", components=2), _em, reached=_SQUARES),
        Engine("em-without-replacement", _rounds("em", "without-replacement", components=2), _em, reached=_SQUARES),
        Engine(
            "messages-full-natural",
            _rounds("message-passing", "full", damping=3.0),
            _of_messages(GaussianSite(noise_precision=3.0), messages.NaturalCoordinates()),
            reached=_SQUARES,
        ),
        Engine(
            "messages-without-replacement-centred-network",
            _rounds("message-passing", "without-replacement", damping=3.0),
            _of_messages(NetworkSite(2, 4.0), messages.CentredCoordinates(0.1)),
        ),
        Engine(
            "natural-gradients", _rounds("variational", "full", step_size=0.2, view="posterior-parameters"), _natural
        ),
    )
}


def small_run(kind: str, scheme: str, rows: int, batch: int, steps: int) -> tuple[Spec, Callable[..., dict[str, Any]]]:
    """A short run of logistic regression on few records, in batches."""
    if kind == "rounds":
        spec = _rounds("variational", "full", steps, step_size=0.05, records=rows)
        start = _of_variational(Logistic(), VariationalOptions(family=PointMass()))
        return spec.with_values({"algorithm.sampling": {"scheme": scheme, "size": batch}}), start
    spec = _chain(scheme, WIDTH, steps)
    return spec.with_values({"algorithm.batch.size": batch, "problem.n": rows}), _of_chain(Logistic())


def table(engine: Engine) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(30)
    X = generator.uniform(-1, 1, (RECORDS, WIDTH))
    return X, generator.choice(engine.targets, RECORDS)


def records(engine: Engine) -> list[tuple[np.ndarray, float]]:
    """Long, short, opposite and absurd records with every target."""
    ones = np.ones(WIDTH)
    turned = np.array([1.0, -1.0, 1.0])
    rows = (ones, -ones, turned, -turned, 0.0 * ones, 1e-3 * ones, 30.0 * turned, 1e4 * ones)
    return [(row, target) for row in rows for target in engine.targets]
