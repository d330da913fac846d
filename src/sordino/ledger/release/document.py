"""release.json: the spec that ran, its certificate, the public schema, and what the arrays are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Bound
from sordino.core.certificate import Certificate, Evidence
from sordino.core.constants import FLOATING_POINT
from sordino.core.errors import InputError
from sordino.core.floating_point import (
    NOT_COVERED,
    floating_point_answer,
    floating_point_line,
    with_floating_point,
    without_floating_point,
)
from sordino.core.spec import Spec
from sordino.core.spec.instance import NamedModel
from sordino.core.spec.section import read_keys, write_keys
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, number, one_of, refuse
from sordino.core.version import __version__
from sordino.data import Schema
from sordino.data.json_fields import JsonFields
from sordino.data.schema_file import schema_from_dict, schema_to_dict

FORMAT = "sordino-release"
# A reader takes every file of its own major version: a larger minor one has keys it may ignore.
MAJOR, MINOR = 1, 2
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", MappingProxyType(dict(self.arrays)))
        # No release without a line about floating point; where nobody says more, it is not covered.
        object.__setattr__(self, "bound", with_floating_point(self.bound, floating_point_line(self.bound)))

    @property
    def epsilon(self) -> float:
        """The certified epsilon at delta."""
        return self.bound.guarantee.epsilon(self.delta)


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
        # A file that does not say was written before anybody asked.
        preprocessing=one_of(
            "preprocessing", fields.optional("preprocessing", CALLERS_WORD), (BY_SCHEMA, CALLERS_WORD)
        ),
        software=_text(fields.required("software"), "software"),
        stated_epsilon=_stated(fields.optional("epsilon", None)) if "epsilon" in document else None,
    )
    digest = _text(fields.required("arrays_sha256"), "arrays_sha256")
    fields.optional("warning", None)
    if not newer:
        fields.finish()
    if (release.bound.relation, release.bound.view) != (release.spec.relation, release.spec.view):
        raise InputError(f"Expected {where} to have one relation and view, got two; the file was changed.")
    return release, digest


def _check_version(version: Any) -> bool:
    """Whether a file of this major version is newer than this reader; another major version is refused."""
    parts = str(version).split(".")
    if len(parts) != 2 or not all(one.isdecimal() and len(one) < 6 for one in parts):
        raise refuse("version", "to be two numbers such as 1.0", version)
    if int(parts[0]) != MAJOR:
        remedy = "use the version of Sordino that wrote it" if int(parts[0]) < MAJOR else "use a newer Sordino"
        raise refuse("version", f"to be {MAJOR}.x", version, remedy)
    return int(parts[1]) > MINOR


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
