"""The pipeline of a release of a model of one's own, run again on drawn tables: a test of the code that fits it.

No private row is read. The run is planned again from what the release says was asked for, and has to come out with its
spec; then whole fits are recorded and replayed on tables that differ in one unit (`auditing.implementation`). What
nothing declares has no corners: other units are drawn at random, at zero, and far out on both sides.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.variational.natural import Sizes
from sordino.auditing.replay.examine import SECONDS, Implementation, Trial, examine
from sordino.auditing.replay.plan import planned_calls
from sordino.auditing.replay.port import Recorder, Run
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import largest_mu
from sordino.core.spec import NoisyGradient
from sordino.core.validate import InputError, instance_of
from sordino.estimators.own_methods import OwnMethod, Wanted
from sordino.estimators.own_model import OWN_METHODS
from sordino.estimators.own_release import OwnRelease
from sordino.estimators.situation import Sources
from sordino.estimators.tasks import asked_of
from sordino.model.own.base import OwnModel
from sordino.model.own.records import RecordLayout

_OUTSIDE, _FAR = 40.0, 1e4


def replay_own_release(
    release: OwnRelease,
    *,
    confidence: float,
    seed: int,
    seconds: float = SECONDS,
    options: Mapping[str, Any] | None = None,
    recorder: Recorder | None = None,
) -> Implementation:
    """Test the code that fits such a release; refused where its run cannot be replayed or planned again.

    Args:
        release: with its model, as `fit` returns it or `open_release` makes it from a folder and the model.
        confidence: of the test of the noise.
        seed: of tables and noise; nothing that is drawn leaves.
        seconds: no further pairs are tried after that long.
        options: those of the fit that a folder cannot hold, such as an optimiser.
        recorder: one that several audits share, so that kernels are compiled once.

    Raises:
        InputError: without the model, for a method whose noise is not replayed, or where another run is planned.
    """
    model = release.own
    if model is None:
        raise InputError(
            "Expected the model beside its release for a replay, got the release alone: a folder does not hold a "
            "model's code; name it (on the command line with --model MODULE:NAME)."
        )
    wanted, chosen = _asked(release, model, dict(options or {}))
    calls = len(planned_calls(release.spec))
    fits = _Fits(chosen, wanted, release)
    drawn = _DrawnUnits(model, wanted.sizes, fits.on, np.random.default_rng(seed))
    found = examine(
        release.spec,
        drawn.trials(),
        confidence=confidence,
        seed=seed,
        recorder=recorder,
        seconds=seconds,
    )
    if not found.calls and calls:
        raise InputError(
            f"Expected a method whose noise passes the port that a replay records, got {chosen.name!r}, whose noise "
            "is drawn inside its program; `sordino audit` without --method reads its description."
        )
    return found


def _asked(release: OwnRelease, model: OwnModel, options: dict[str, Any]) -> tuple[Wanted, OwnMethod]:
    """What was asked for, so that a plan from it has the spec of the release."""
    asked = asked_of(release.settings)
    chosen = OWN_METHODS[release.settings["method"]]
    if not chosen.packs:
        raise InputError(
            f"Expected a method whose noised sums a replay records, got {chosen.name!r}, which keeps no table; its own "
            "audit are canaries in the run: sordino.fit(..., options={'canaries': 1000})."
        )
    unsaid = [name for name in asked.get("unsaid", ()) if name not in options]
    if unsaid:
        raise InputError(f"Expected the options {', '.join(unsaid)}, which a folder cannot hold, got none; give them.")
    spec = release.spec
    first = next(iter(spec.runs())).algorithm
    sizes = Sizes(
        spec.n if isinstance(first, NoisyGradient) else int(getattr(first, "records", 0)),
        model.size,
        largest_mu(float(asked["epsilon"]), release.delta),
        spec.relation,
        release.delta,
        spec.unit,
    )
    wanted = Wanted(model, sizes, float(asked["epsilon"]), {**asked.get("options", {}), **options})
    if chosen.plan(wanted) != spec:
        raise InputError(
            f"Expected method {chosen.name!r} to plan the release's spec again, got another one; the release was made "
            f"by version {release.software}, or with another model."
        )
    return wanted, chosen


class _Fits:
    """Whole fits, as any fit but for where random numbers come from."""

    def __init__(self, method: OwnMethod, wanted: Wanted, release: OwnRelease) -> None:
        self._method, self._wanted, self._spec = method, wanted, release.spec

    def on(self, table: Array) -> Run:
        """A fit on packed rows of units."""

        def run(fresh: Callable[[], Any]) -> dict[str, Any]:
            sources = Sources(None, fresh)
            found = self._method.run(self._wanted, self._spec, table, sources, lambda _: None)
            return {"draws": found.draws, **found.settings, **found.arrays, "cautions": repr(found.cautions)}

        return run


class _DrawnUnits:
    """Tables of packed rows with one odd unit."""

    def __init__(
        self, model: OwnModel, sizes: Sizes, fit: Callable[[Array], Run], generator: np.random.Generator
    ) -> None:
        self._model, self._sizes, self._fit, self._generator = model, sizes, fit, generator
        self._layout: RecordLayout = instance_of("layout", model.layout, RecordLayout)
        self._whole = np.concatenate([np.full(leaf.size, leaf.whole) for leaf in self._layout.leaves])

    def trials(self) -> Iterator[Trial]:
        """Tables around an odd unit, which is drawn, zero, or outside by little and by much."""
        odd = {"a drawn unit": None, "zeros": self._packed(np.zeros(self._columns))}
        odd |= {"a unit outside": self._odd(_OUTSIDE), "its opposite": self._odd(-_OUTSIDE)}
        replaced = self._sizes.relation is Relation.REPLACE_ONE
        for words, more in (("drawn units", {}), ("drawn units again", {"a unit far outside": self._odd(_FAR)})):
            rest = self._drawn(self._sizes.records - 1)
            units = {word: self._drawn(1) if unit is None else unit for word, unit in (odd | more).items()}
            tables = [(f"with {word}", self._fit(np.vstack([rest, unit]))) for word, unit in units.items()]
            yield Trial(words, (*(() if replaced else (("without it", self._fit(rest)),)), *tables), replaced)

    @property
    def _columns(self) -> int:
        return self._layout.rows * self._layout.width

    def _packed(self, numbers: Array) -> Array:
        """Rows with all places taken; whole numbers stay 0 or 1, which indices and labels may be."""
        rows = np.atleast_2d(numbers)
        whole = np.tile(self._whole, self._layout.rows)
        rows = np.where(whole, np.clip(np.rint(np.abs(rows)), 0.0, 1.0), rows)
        taken = np.ones((len(rows), self._layout.columns - self._columns))
        return np.hstack([rows, taken])

    def _odd(self, size: float) -> Array:
        return self._packed(size * np.ones(self._columns) * np.where(np.arange(self._columns) % 2, -1.0, 1.0))

    def _drawn(self, count: int) -> Array:
        """Random units; what a model observes is drawn from the model where it can be."""
        rows = self._packed(self._generator.normal(size=(count, self._columns)))
        if not self._model.simulates:
            return rows
        with in_doubles():
            theta = jnp.asarray(self._model.start(), jnp.float64)
            drawn = jax.vmap(self._model.simulated, in_axes=(None, 0))(theta, jnp.asarray(rows))
            return np.asarray(drawn, np.float64)
