"""release.json: the spec that ran, its certificate, the public schema, what the arrays are, and whom it protects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from sordino.accounting.evaluate import for_group
from sordino.core import __version__
from sordino.core import bound as bounds
from sordino.core.bound import Bound, Certificate, Evidence, Relation
from sordino.core.gaussian import show_up
from sordino.core.spec import AnyUnit, ColumnUnit, Spec, Unit
from sordino.core.spec.fields import Flag, Text, as_object, read_keys, write_keys
from sordino.core.spec.instance import NamedModel
from sordino.core.spec.problem import UNIT
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, InputError, instance_of, number, one_of, refuse, shown_names
from sordino.data import Schema
from sordino.data.schema import schema_from_dict, schema_to_dict
from sordino.mechanisms.chain.release import ChainRelease, KeptIterates, LastIterate, NoisedAverage, on_release_grid
from sordino.mechanisms.posterior.coefficients import ARRAYS as COEFFICIENT_ARRAYS
from sordino.mechanisms.posterior.coefficients import from_stored
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior, DrawsPosterior, FactorisedPosterior, Posterior
from sordino.mechanisms.posterior.network import NetworkPosterior
from sordino.models.registry import build_model

FORMAT = "sordino-release"
MAJOR, MINOR = 2, 1  # written and read: a larger minor version has keys that a reader may ignore
NON_PRIVATE = "NON-PRIVATE: made with reproducible randomness; anyone who knows the seed can subtract the noise"

# What was done to rows before the fit: nothing but what the schema declares, or something that only the caller knows.
BY_SCHEMA, CALLERS_WORD = "by the schema", "the caller's word"
_MOST_CAUTIONS, _LONGEST_CAUTION = 20, 2000
_TEXT = Text()
# What `to_document` writes; warning, unit, group and ran follow from the rest and are not read back.
_KEYS = (
    "format", "version", "software", "warning", "private", "cautions", "preprocessing", "kind", "epsilon", "delta",
    "unit", "group", "ran", "spec", "bound", "floating_point", "answers", "model", "schema", "settings", "ledger",
    "arrays", "arrays_sha256",
)  # fmt: skip

# Settings that are printed as they are, by the kind of release; whatever prints them relies on these types.
_END = (float, None)
_ENDS = {"low": _END, "high": _END}
_PAIR = (None, [float, float])
_ROW = {"name": str, "value": _END, **_ENDS}
_PRINTED: dict[str, dict[str, Any]] = {
    "look": {
        "level": float, "about": str, "answers": [{"question": str, "word": str, "columns": [str], "rows": [_ROW]}]
    },
    "check": {
        "level": float, "about": str,
        "bands": [_ENDS | {"count": float, "off": _END, "off_low": _END, "off_high": _END}],
    },
    "comparison": {
        "level": float,
        "models": [_ENDS | {"name": str, "loss": float, "difference": _END, "table": _PAIR, "alike": _PAIR}],
    },
    "network": {"leaves": [str]},
    "own-model": {"sites": [{"name": str, "shape": [int]}]},
}  # fmt: skip

Arrays = Mapping[str, np.ndarray]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """What a certificate about one record says about so many that change together: epsilon, rounded up, at delta."""

    records: int
    relation: Relation
    epsilon: float
    delta: float

    @property
    def sentence(self) -> str:
        replaced = "replaced together by as many others; the number of records is public"
        change = replaced if self.relation is Relation.REPLACE_ONE else "added or removed together"
        found = f"at most {show_up(self.epsilon)}" if math.isfinite(self.epsilon) else "not finite"
        found = f"for {self.records} of them epsilon is {found} at delta {self.delta:g} ({change})"
        known = f"Up to {self.records} records are declared to belong together"
        return f"No column identifies the unit, so a record is the unit. {known}: {found}."


@dataclass(frozen=True)
class Protection:
    """Whom a certificate is about: the spec's unit, or a group of records where no column says which."""

    unit: AnyUnit
    group: Group | None = None

    @property
    def name(self) -> str:
        return "record" if isinstance(self.unit, Unit) else "unit"

    @property
    def words(self) -> str:
        return "one record" if isinstance(self.unit, Unit) else f"one unit: {self.unit.words}"

    @property
    def several(self) -> str:
        """What a reader must know who thinks of people and not of records."""
        if isinstance(self.unit, ColumnUnit):
            one = f"It protects one unit: all records with one value of {self.unit.column!r} together."
            return f"{one} Someone with two values counts as two units and gets weaker protection."
        if self.group is not None:
            return f"It protects one record. {self.group.sentence}"
        more = "Several records together get weaker protection: k of them about k times epsilon, and a larger delta."
        return f"It protects one record; no other unit was declared. {more}"

    def to_dict(self) -> dict[str, object]:
        """JSON form: the unit as in a spec, and the group where there is one."""
        one = self.group
        epsilon = None if one is None or math.isinf(one.epsilon) else one.epsilon
        group = None if one is None else {"records": one.records, "epsilon": epsilon, "delta": one.delta}
        return {"unit": UNIT.write(self.unit), "group": group}


def protection_of(spec: Spec, schema: Schema | None, bound: Bound | None, delta: float) -> Protection:
    """Whom a release protects: its spec says so, and its schema whether records belong together all the same."""
    declared = None if schema is None else schema.unit
    if isinstance(spec.unit, ColumnUnit) or declared is None or declared.most_records == 1 or bound is None:
        return Protection(spec.unit)
    epsilon = for_group(bound, spec, declared.most_records).epsilon(delta)
    return Protection(spec.unit, Group(declared.most_records, spec.relation, epsilon, delta))


@dataclass(frozen=True, eq=False, repr=False)
class StoredRelease:
    """A release as a folder holds it: the spec that ran, its tightest bound at `delta`, and the released arrays.

    `kind` says what the arrays are, `settings` are the public facts that are needed to read them; `private` is false
    where the randomness was not secret. `answers` are what every theorem said, `ledger` names the debited entry, and
    `cautions` are what a reader must know first. `preprocessing` is `CALLERS_WORD` where arrays were given: nobody but
    the caller knows what was learned from private rows on the way. `stated_epsilon`, `digest` (SHA-256 of release.json)
    and `document` are those of the folder that it was read from, if it was.
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
    document: Settings | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", MappingProxyType(dict(self.arrays)))
        # No release without a line about floating point; where nobody says more, it is not covered.
        stated = bounds.floating_point_line(self.bound)
        object.__setattr__(self, "bound", bounds.with_floating_point(self.bound, stated))

    @property
    def epsilon(self) -> float:
        return self.bound.guarantee.epsilon(self.delta)

    @property
    def kind_words(self) -> str:
        """The kind for people, who call a model of their own a custom model."""
        return self.kind.replace("own-model", "custom-model")

    def __repr__(self) -> str:
        private = "" if self.private else ", NON-PRIVATE"
        return f"<release of kind {self.kind_words}: epsilon {self.epsilon:.4g} at delta {self.delta:g}{private}>"

    @property
    def protected(self) -> Protection:
        return protection_of(self.spec, self.schema, self.bound, self.delta)


def to_document(release: StoredRelease, digest: str) -> dict[str, object]:
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
        "bound": bounds.with_floating_point(release.bound).to_dict(),
        "floating_point": bounds.floating_point_answer(release.bound),
        "answers": dict(release.answers),
        "model": None if release.model is None else write_keys(release.model),
        "schema": None if release.schema is None else schema_to_dict(release.schema),
        "settings": dict(release.settings),
        "ledger": None if release.ledger is None else dict(release.ledger),
        "arrays": _types(release.arrays),
        "arrays_sha256": digest,
    }


def _types(arrays: Arrays) -> dict[str, object]:
    return {name: {"dtype": str(values.dtype), "shape": list(values.shape)} for name, values in arrays.items()}


def changed_keys(release: StoredRelease) -> tuple[str, ...]:
    """Keys of the release.json that was read which are absent, or not what this version writes of the others."""
    if release.document is None:
        return ()
    read, again = dict(release.document), to_document(release, str(release.document["arrays_sha256"]))
    if release.software != __version__:  # another version may know a better theorem about several records
        read["group"] = again["group"] = None
    return tuple(key for key in again if key not in read or read[key] != again[key])


def from_document(where: str, document: object, arrays: Arrays) -> tuple[StoredRelease, str]:
    """Read the JSON form beside its arrays; also the digest it states."""
    if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
        raise refuse(where, "to be an object with named keys", document)

    def required(key: str) -> Any:
        if document.get(key) is None:
            raise InputError(f"{where} lacks the key {key!r}. Declare it.")
        return document[key]

    def section(key: str) -> dict[str, object] | None:
        return None if document.get(key) is None else dict(as_object(key, document[key]))

    if required("format") != FORMAT:
        raise refuse("format", f"to be {FORMAT!r}", document["format"], "check that this is a release folder")
    parts = str(required("version")).split(".")
    if len(parts) != 2 or not all(one.isdecimal() and len(one) < 6 for one in parts):
        raise refuse("version", "to be two numbers such as 2.0", document["version"])
    major, minor = map(int, parts)
    if major != MAJOR:
        remedy = "use the version of Sordino that wrote it" if major < MAJOR else "use a newer Sordino"
        raise refuse("version", f"to be {MAJOR}.x", document["version"], remedy)
    if required("arrays") != _types(arrays):
        raise InputError(f"The arrays are not those that {where} lists; the folder was changed.")
    cautions = [] if document.get("cautions") is None else document["cautions"]
    short = isinstance(cautions, list) and len(cautions) <= _MOST_CAUTIONS
    if not short or not all(isinstance(one, str) and len(one) <= _LONGEST_CAUTION for one in cautions):
        raise refuse("cautions", f"to be a list of at most {_MOST_CAUTIONS} texts", cautions)
    model, schema = section("model"), document.get("schema")
    # Null stands for an epsilon that is not finite.
    epsilon, stated_epsilon = document.get("epsilon"), None
    if "epsilon" in document:
        stated_epsilon = math.inf if epsilon is None else number("epsilon", epsilon, NON_NEGATIVE)
    release = StoredRelease(
        kind=_TEXT.read("kind", required("kind")),
        spec=Spec.from_dict(required("spec")),
        bound=_bound(where, required("bound"), document.get("floating_point")),
        delta=number("delta", required("delta"), OPEN_UNIT),
        private=Flag().read("private", required("private")),
        arrays=arrays,
        settings=section("settings") or {},
        model=None if model is None else read_keys(NamedModel, "model", model),
        schema=None if schema is None else schema_from_dict(schema),
        answers=section("answers") or {},
        ledger=section("ledger") or None,
        cautions=tuple(cautions),
        preprocessing=one_of("preprocessing", required("preprocessing"), (BY_SCHEMA, CALLERS_WORD)),
        software=_TEXT.read("software", required("software")),
        stated_epsilon=stated_epsilon,
    )
    if not has_form(release.settings, _PRINTED.get(release.kind.split("/")[0], {})):
        raise InputError(f"The settings in {where} are not those of a {release.kind}. The file was changed.")
    digest = _TEXT.read("arrays_sha256", required("arrays_sha256"))
    unknown = [key for key in document if key not in _KEYS]
    if unknown and minor <= MINOR:
        allowed = ", ".join(sorted(_KEYS))
        raise InputError(f"Expected {where} to have only the keys {allowed}, got {shown_names(unknown)}.")
    if (release.bound.relation, release.bound.view) != (release.spec.relation, release.spec.view):
        raise InputError(f"The parts of {where} have different relations or views. The file was changed.")
    return release, digest


def _bound(where: str, value: object, line: object) -> Bound:
    """The theorem's bound, with the line about floating point, which stands apart so that older readers can skip it."""
    try:
        bound = Bound.from_dict(dict(as_object("bound", value)))
        if line is None:
            return bounds.with_floating_point(bound, bounds.NOT_COVERED)
        given = as_object("floating_point", line)
        stated, evidence, reason = (given[key] for key in ("total_variation", "evidence", "reason"))
        word = Evidence.from_word("floating_point.evidence", evidence)
        words = _TEXT.read("floating_point.reason", reason)
        return bounds.with_floating_point(bound, Certificate(bounds.FLOATING_POINT, stated, word, words))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"The bound in {where} cannot be read: {str(error)[:100]}.") from None


def has_form(value: Any, form: Any) -> bool:
    """Whether a JSON value has these types: objects with keys, lists of one or several forms, one of several."""
    if isinstance(form, dict):
        return isinstance(value, Mapping) and all(key in value and has_form(value[key], form[key]) for key in form)
    if isinstance(form, list):
        forms = form * len(value) if isinstance(value, list) and len(form) == 1 else form
        return isinstance(value, list) and len(value) == len(forms) and all(map(has_form, value, forms))
    if isinstance(form, tuple):
        return any(has_form(value, one) for one in form)
    if form is None or isinstance(value, bool):
        return value is form
    return isinstance(value, int | float if form is float else form)


def chain_arrays(release: ChainRelease) -> tuple[str, dict[str, np.ndarray]]:
    """What a release of a chain stores: its kind, and its arrays on the grid of the release."""
    match release:
        case LastIterate():
            return "last-iterate", {"draws": on_release_grid(release.spec, release.iterates)[:, None]}
        case KeptIterates():
            return "kept-iterates", {"draws": on_release_grid(release.spec, release.iterates)}
    averages = instance_of("the release", release, NoisedAverage).averages
    return "average", {"averages": on_release_grid(release.spec, averages)}


_POSTERIORS: tuple[Any, ...] = (DrawsPosterior, FactorisedPosterior, DenseGaussianPosterior, NetworkPosterior)


def posterior_of(release: StoredRelease) -> Posterior:
    """The posterior a stored release stands for."""
    if release.model is None:
        raise InputError("The model of this release is not registered. Build its posterior.")
    if release.arrays.keys() == COEFFICIENT_ARRAYS:
        return from_stored(release.arrays, release.settings)
    for kind in _POSTERIORS:
        if release.arrays.keys() == set(kind.stored):
            return kind(build_model(release.model), *(release.arrays[name] for name in kind.stored))
    raise InputError(f"This release has no posterior; it holds {', '.join(release.arrays)}.")
