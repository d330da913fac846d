"""release.json: the spec that ran, its certificate, the public schema, and what the arrays are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.chain.release import KeptIterates, LastIterate, NoisedAverage, on_release_grid
from sordino.algorithm.posterior.coefficients import ARRAYS as COEFFICIENT_ARRAYS
from sordino.algorithm.posterior.coefficients import CoefficientPosterior, from_stored
from sordino.algorithm.posterior.laws import (
    DenseGaussianPosterior,
    DrawsPosterior,
    FactorisedPosterior,
    GaussianPosterior,
    Posterior,
)
from sordino.algorithm.posterior.network import ARRAYS as NETWORK_ARRAYS
from sordino.algorithm.posterior.network import NetworkPosterior
from sordino.algorithm.rounds.described import SumsRelease
from sordino.core.bound import (
    FLOATING_POINT,
    NOT_COVERED,
    Bound,
    Certificate,
    Evidence,
    floating_point_answer,
    floating_point_line,
    with_floating_point,
    without_floating_point,
)
from sordino.core.spec import Spec
from sordino.core.spec.fields import read_keys, write_keys
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, InputError, number, one_of, refuse
from sordino.core.version import __version__
from sordino.data import Schema
from sordino.data.schema import schema_from_dict, schema_to_dict
from sordino.data.words import shown_names
from sordino.ledger.release.protected import Protected, protected
from sordino.model.registry import build_model

FORMAT = "sordino-release"
# Written and read: a larger minor version has keys that a reader may ignore.
MAJOR, MINOR = 2, 1
NON_PRIVATE = "NON-PRIVATE: made with reproducible randomness; whoever knows the seed can subtract the noise"

# What was done to rows before the fit: nothing but what the schema declares, or something that only the caller knows.
BY_SCHEMA, CALLERS_WORD = "by the schema", "the caller's word"
_MOST_CAUTIONS, _LONGEST_CAUTION = 20, 2000

Arrays = Mapping[str, NDArray[Any]]
Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StoredRelease:
    """A release as a folder holds it.

    Attributes:
        kind: what the arrays are, such as last-iterate; says how to read them.
        spec: the run.
        bound: its tightest bound, with every certificate it rests on and a line about floating point.
        delta: at which the bounds were compared.
        private: whether its randomness was secret; otherwise the release is for trying things out.
        arrays: the released numbers.
        settings: public facts that the kind needs to read its arrays.
        model: the registered model, if it is one.
        schema: the public schema of the table it was fitted to, if there was one.
        answers: what every theorem said, as `certify --json` prints it.
        ledger: dataset, number and digest of the entry that was debited, if one was.
        cautions: what a reader must know first, such as that only a constant was learned; said before a row was read.
        preprocessing: `BY_SCHEMA` where named columns were read through the schema; `CALLERS_WORD` where arrays were
            given, because then nobody but the caller knows what was learned from private rows on the way.
        stated_epsilon: what the folder's headline says; None where it was not read from one.
        digest: SHA-256 of the folder's release.json, which holds that of the arrays; None likewise.
    """

    kind: str
    spec: Spec
    bound: Bound
    delta: float
    private: bool
    arrays: Arrays
    settings: Settings = field(default_factory=dict)
    model: NamedModel | None = None
    schema: Schema | None = None
    answers: Settings = field(default_factory=dict)
    ledger: Settings | None = None
    cautions: tuple[str, ...] = ()
    preprocessing: str = CALLERS_WORD
    software: str = __version__
    stated_epsilon: float | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", MappingProxyType(dict(self.arrays)))
        # No release without a line about floating point; where nobody says more, it is not covered.
        object.__setattr__(self, "bound", with_floating_point(self.bound, floating_point_line(self.bound)))

    @property
    def epsilon(self) -> float:
        """The certified epsilon at delta."""
        return self.bound.guarantee.epsilon(self.delta)

    @property
    def protected(self) -> Protected:
        """Whom it protects: one record, or all records of a unit."""
        return protected(self.spec, self.schema, self.bound, self.delta)


def to_document(release: StoredRelease, digest: str) -> dict[str, Any]:
    """The JSON form; `digest` is the SHA-256 of the arrays' file."""
    return {
        "format": FORMAT,
        "version": f"{MAJOR}.{MINOR}",
        "software": release.software,
        "warning": None if release.private else NON_PRIVATE,
        "private": release.private,
        "cautions": list(release.cautions),
        "preprocessing": release.preprocessing,
        "kind": release.kind,
        "epsilon": release.epsilon if np.isfinite(release.epsilon) else None,
        "delta": release.delta,
        **release.protected.to_dict(),
        "ran": list(release.spec.ran),
        "spec": release.spec.to_dict(),
        "bound": without_floating_point(release.bound).to_dict(),
        "floating_point": floating_point_answer(release.bound),
        "answers": dict(release.answers),
        "model": None if release.model is None else write_keys(release.model),
        "schema": None if release.schema is None else schema_to_dict(release.schema),
        "settings": dict(release.settings),
        "ledger": None if release.ledger is None else dict(release.ledger),
        "arrays": {
            name: {"dtype": str(values.dtype), "shape": list(values.shape)} for name, values in release.arrays.items()
        },
        "arrays_sha256": digest,
    }


def from_document(where: str, document: Any, arrays: Arrays) -> tuple[StoredRelease, str]:
    """Read the JSON form beside its arrays; also the digest it states."""
    fields = JsonFields(where, document)
    if fields.required("format") != FORMAT:
        raise refuse("format", f"to be {FORMAT!r}", fields.required("format"), "is this a release?")
    newer = _check_version(fields.required("version"))
    model, schema = fields.optional("model", None), fields.optional("schema", None)
    stated = fields.required("arrays")
    found = {name: {"dtype": str(values.dtype), "shape": list(values.shape)} for name, values in arrays.items()}
    if stated != found:
        raise InputError(f"Expected the arrays that {where} lists, got others; the folder was changed.")
    release = StoredRelease(
        kind=_text(fields.required("kind"), "kind"),
        spec=Spec.from_dict(fields.required("spec")),
        bound=_bound(where, fields.required("bound"), fields.optional("floating_point", None)),
        delta=number("delta", fields.required("delta"), OPEN_UNIT),
        private=_flag(fields.required("private")),
        arrays=arrays,
        settings=_object(fields.optional("settings", {}), "settings"),
        model=None if model is None else read_keys(NamedModel, "model", _object(model, "model")),
        schema=None if schema is None else schema_from_dict(schema),
        answers=_object(fields.optional("answers", {}), "answers"),
        ledger=_object(fields.optional("ledger", {}), "ledger") or None,
        cautions=_cautions(fields.optional("cautions", [])),
        preprocessing=one_of("preprocessing", fields.required("preprocessing"), (BY_SCHEMA, CALLERS_WORD)),
        software=_text(fields.required("software"), "software"),
        stated_epsilon=_stated(fields.optional("epsilon", None)) if "epsilon" in document else None,
    )
    digest = _text(fields.required("arrays_sha256"), "arrays_sha256")
    # These follow from the rest.
    for name in ("warning", "unit", "group", "ran"):
        fields.optional(name, None)
    if not newer:
        fields.finish()
    if (release.bound.relation, release.bound.view) != (release.spec.relation, release.spec.view):
        raise InputError(f"Expected {where} to have one relation and view, got two; the file was changed.")
    return release, digest


def _check_version(version: Any) -> bool:
    """Whether a file of this major version is newer than this reader; another major version is refused."""
    parts = str(version).split(".")
    if len(parts) != 2 or not all(one.isdecimal() and len(one) < 6 for one in parts):
        raise refuse("version", "to be two numbers such as 2.0", version)
    major, minor = map(int, parts)
    if major != MAJOR:
        remedy = "use the version of Sordino that wrote it" if major < MAJOR else "use a newer Sordino"
        raise refuse("version", f"to be {MAJOR}.x", version, remedy)
    return minor > MINOR


def _bound(where: str, value: Any, line: Any) -> Bound:
    """The theorem's bound, with the line about floating point, which stands apart so that older readers can skip it."""
    try:
        bound = Bound.from_dict(_object(value, "bound"))
        if line is None:
            return with_floating_point(bound, NOT_COVERED)
        stated, evidence, reason = (
            _object(line, "floating_point")[key] for key in ("total_variation", "evidence", "reason")
        )
        word = Evidence.from_word("floating_point.evidence", evidence)
        return with_floating_point(
            bound, Certificate(FLOATING_POINT, stated, word, _text(reason, "floating_point.reason"))
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"Expected {where} to hold a bound, got one that cannot be read: {str(error)[:100]}."
        ) from None


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(name, "to be an object", value)
    return value


def _cautions(value: Any) -> tuple[str, ...]:
    short = isinstance(value, list) and len(value) <= _MOST_CAUTIONS
    if not short or not all(isinstance(one, str) and len(one) <= _LONGEST_CAUTION for one in value):
        raise refuse("cautions", f"to be a list of at most {_MOST_CAUTIONS} texts", value)
    return tuple(value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise refuse(name, "to be a short text", value)
    return value


def _stated(value: Any) -> float:
    """The epsilon of the headline, where null stands for none that is finite."""
    return math.inf if value is None else number("epsilon", value, NON_NEGATIVE)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise refuse("private", "to be true or false", value)
    return value


# What each kind of release stores, and the posterior that can be had back from it.


class Contents(NamedTuple):
    """The kind of a release and its arrays."""

    kind: str
    spec: Spec
    arrays: dict[str, NDArray[Any]]


@singledispatch
def stored(release: object) -> Contents:
    """What a release stores; a new kind of release registers its own."""
    raise InputError(f"Expected a release that can be stored, got a {type(release).__name__}.")


@stored.register
def _(release: LastIterate) -> Contents:
    return Contents("last-iterate", release.spec, {"draws": on_release_grid(release.spec, release.iterates)[:, None]})


@stored.register
def _(release: KeptIterates) -> Contents:
    return Contents("kept-iterates", release.spec, {"draws": on_release_grid(release.spec, release.iterates)})


@stored.register
def _(release: NoisedAverage) -> Contents:
    return Contents("average", release.spec, {"averages": on_release_grid(release.spec, release.averages)})


@stored.register
def _(release: SumsRelease) -> Contents:
    return Contents(release.query, release.spec, posterior_arrays(release.posterior))


@singledispatch
def posterior_arrays(posterior: Posterior) -> dict[str, NDArray[Any]]:
    """The arrays a posterior can be had back from; a new kind of posterior registers its own."""
    raise InputError(f"Expected a posterior that can be stored, got a {type(posterior).__name__}.")


@posterior_arrays.register
def _(posterior: FactorisedPosterior) -> dict[str, NDArray[Any]]:
    return {"means": posterior.means, "deviations": posterior.deviations}


@posterior_arrays.register
def _(posterior: DrawsPosterior) -> dict[str, NDArray[Any]]:
    return {"draws": np.asarray(posterior.draws)}


@posterior_arrays.register
def _(posterior: DenseGaussianPosterior) -> dict[str, NDArray[Any]]:
    return {"means": posterior.means, "covariances": posterior.covariances}


@posterior_arrays.register
def _(posterior: CoefficientPosterior) -> dict[str, NDArray[Any]]:
    return posterior.arrays


@posterior_arrays.register
def _(posterior: NetworkPosterior) -> dict[str, NDArray[Any]]:
    return {name: getattr(posterior, name) for name in NETWORK_ARRAYS}


@posterior_arrays.register
def _(posterior: GaussianPosterior) -> dict[str, NDArray[Any]]:
    return {"means": posterior.mean, "covariances": posterior.covariance}


# By the names of the arrays that a release holds, in the order in which the posterior takes them.
_POSTERIORS: dict[tuple[str, ...], Callable[..., Posterior]] = {
    ("draws",): DrawsPosterior,
    ("means", "deviations"): FactorisedPosterior,
    ("means", "covariances"): DenseGaussianPosterior,
    NETWORK_ARRAYS: NetworkPosterior,
}


def posterior_of(release: StoredRelease) -> Posterior:
    """The posterior a stored release stands for."""
    if release.model is None:
        raise InputError("Expected a release of a registered model, got one of the user's own; build its posterior.")
    if release.arrays.keys() == COEFFICIENT_ARRAYS:
        return from_stored(release.arrays, release.settings)
    for names, made in _POSTERIORS.items():
        if release.arrays.keys() == set(names):
            return made(build_model(release.model), *(release.arrays[name] for name in names))
    raise InputError(f"Expected a release with a posterior, got one that holds {', '.join(release.arrays)}.")


class JsonFields:
    """The keys of one JSON object, taken one by one; `finish` refuses what nobody took, and null means absent."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise refuse(where, "to be an object with named keys", value)
        self.where = where
        self._values = dict(value)
        self._taken: list[str] = []

    def required(self, key: str) -> Any:
        """The value of a key that must be there."""
        self._taken.append(key)
        if self._values.get(key) is None:
            raise InputError(f"Expected {self.where} to have the key {key!r} with a value, got none; declare it.")
        return self._values[key]

    def optional(self, key: str, default: Any) -> Any:
        """The value of a key that may be absent or null."""
        self._taken.append(key)
        value = self._values.get(key)
        return default if value is None else value

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        unknown = [key for key in self._values if key not in self._taken]
        if unknown:
            allowed = ", ".join(sorted(set(self._taken)))
            raise InputError(f"Expected {self.where} to have only the keys {allowed}, got {shown_names(unknown)}.")
