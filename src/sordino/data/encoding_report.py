"""What encoding did to the rows: counts that read private data and must not be released."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

WATERMARK = "NON-PRIVATE: these counts were read off the private rows; keep them with the data, never release them."


@dataclass(frozen=True)
class ColumnCounts:
    """How many values of one column were missing, outside the declared bounds, or not a declared category."""

    missing: int = 0
    clipped: int = 0
    unseen: int = 0


@dataclass(frozen=True)
class EncodingReport:
    """Counts per column and the number of rows shortened to the row-norm cap. NON-PRIVATE."""

    records: int
    declared_records: int
    rows_clipped: int
    columns: Mapping[str, ColumnCounts]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    @property
    def reads_private_data(self) -> bool:
        """Always true; the property exists so that a writer of releases can ask."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, watermark first."""
        return {
            "watermark": WATERMARK,
            "reads_private_data": True,
            "records": self.records,
            "declared_records": self.declared_records,
            "rows_clipped": self.rows_clipped,
            "columns": {
                name: {"missing": counts.missing, "clipped": counts.clipped, "unseen": counts.unseen}
                for name, counts in self.columns.items()
            },
        }

    def __str__(self) -> str:
        touched = [
            f"{name!r}: {counts.missing} missing, {counts.clipped} clipped, {counts.unseen} unseen"
            for name, counts in self.columns.items()
            if counts != ColumnCounts()
        ]
        head = f"{self.records} records ({self.declared_records} declared), {self.rows_clipped} rows clipped to the cap"
        return "\n".join([WATERMARK, head, *touched])
