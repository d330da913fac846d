"""The public domain of one record: what a model may assume about x and y without having read private rows."""

from dataclasses import dataclass, replace

from sordino.core.certificate import Certificate, Constant, Evidence
from sordino.core.constants import ROW_NORM, TARGET_BOUND, TARGET_WIDTH
from sordino.core.validate import Interval, number, refuse, whole_number
from sordino.data.schema import Schema

DECLARED = "declared by hand"


@dataclass(frozen=True, init=False)
class Domain:
    """How long a row may be, how many features it has, and what its target may be.

    A plain number is taken as declared: the caller vouches that every record obeys it. `Domain.from_schema` gives
    certificates that hold because encoding clips to them. `classes` is the number of labels of a classification target,
    coded 0, 1, ..., or as signs when `target_width` is 2.
    """

    features: int
    row_norm: Certificate
    target_bound: Certificate | None = None
    target_width: Certificate | None = None
    classes: int | None = None

    def __init__(
        self,
        features: int,
        row_norm: Certificate | float,
        target_bound: Certificate | float | None = None,
        target_width: Certificate | float | None = None,
        classes: int | None = None,
    ) -> None:
        object.__setattr__(self, "features", whole_number("features", features))
        object.__setattr__(self, "row_norm", _stated(ROW_NORM, row_norm))
        object.__setattr__(self, "target_bound", _optional(TARGET_BOUND, target_bound))
        object.__setattr__(self, "target_width", _optional(TARGET_WIDTH, target_width))
        object.__setattr__(
            self, "classes", classes if classes is None else whole_number("classes", classes, Interval(2))
        )

    @classmethod
    def from_schema(cls, schema: Schema) -> "Domain":
        """The domain that encoding under a public schema enforces; an inferred schema marks every certificate."""
        kind = schema.target.kind if schema.target is not None else None
        magnitudes = kind is not None and kind.bound is not None
        return cls(
            features=len(schema.feature_names),
            row_norm=schema.feature_norm_certificate(),
            target_bound=schema.target_bound_certificate() if magnitudes else None,
            target_width=schema.target_width_certificate() if magnitudes else None,
            classes=kind.classes if kind is not None else None,
        )

    @property
    def reads_private_data(self) -> bool:
        """Whether any of these bounds was computed from private rows; every certificate of a model inherits it."""
        return any(part.reads_private_data for part in self._parts)

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence among the bounds on records."""
        return min(part.evidence for part in self._parts)

    def with_rows_clipped_to(self, cap: float) -> "Domain":
        """The domain after every row is shortened to at most `cap`."""
        number("cap", cap, Interval(0.0, low_open=True))
        if cap >= self.row_norm.value:
            return self
        clipped = Certificate(
            ROW_NORM,
            cap,
            Evidence.BY_CONSTRUCTION,
            "rows clipped to the declared cap",
            self.row_norm.reads_private_data,
        )
        return replace(self, row_norm=clipped)

    @property
    def _parts(self) -> tuple[Certificate, ...]:
        return tuple(part for part in (self.row_norm, self.target_bound, self.target_width) if part is not None)


def _stated(constant: Constant, value: Certificate | float) -> Certificate:
    if not isinstance(value, Certificate):
        return Certificate(constant, value, Evidence.DECLARED, DECLARED)
    if value.constant != constant:
        raise refuse(f"Domain.{constant.name}", f"to be a certificate of {constant.name}", value.constant.name)
    return value


def _optional(constant: Constant, value: Certificate | float | None) -> Certificate | None:
    return None if value is None else _stated(constant, value)
