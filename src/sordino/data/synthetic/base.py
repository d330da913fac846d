"""Synthetic data with known truth, and the registry of generators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.core.validate import POSITIVE, number, whole_number
from sordino.data.float32_safe import SHRINK
from sordino.data.kinds import UNSCALED, Number
from sordino.data.row_norm import RowNorm, clip_rows
from sordino.data.schema import Feature, Schema, Target
from sordino.data.sources.numpy_arrays import from_arrays
from sordino.data.table import Table
from sordino.data.targets import TargetKind

TARGET_NAME = "y"


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Drawn records, the truth they were drawn from, and a public schema that holds by construction.

    `encode(schema, table, relation)` gives back `features` and `target` exactly.
    """

    features: NDArray[np.float64]
    target: NDArray[Any]
    truth: Mapping[str, Any]
    schema: Schema
    table: Table


Generator = TypeVar("Generator", bound=Callable[..., Synthetic])
GENERATORS: dict[str, Callable[..., Synthetic]] = {}


def generator(word: str) -> Callable[[Generator], Generator]:
    """Register a generator under a word."""

    def register(draw: Generator) -> Generator:
        if word in GENERATORS:
            raise InputError(f"Expected a new generator name, got {word!r}, which is already registered.")
        GENERATORS[word] = draw
        return draw

    return register


def draw_rows(rng: np.random.Generator, records: int, dim: int, cap: float) -> NDArray[np.float64]:
    """Gaussian rows of typical length cap / 2, clipped to `cap` before any target is drawn from them."""
    whole_number("records", records)
    whole_number("dim", dim)
    number("cap", cap, POSITIVE)
    rows = rng.standard_normal((records, dim)) * (cap / (2.0 * np.sqrt(dim)))
    return clip_to_cap(rows, cap)


def clip_to_cap(rows: NDArray[np.float64], cap: float) -> NDArray[np.float64]:
    """Clip a little below the cap, so that encoding under the same cap changes nothing."""
    clip_rows(rows, cap * SHRINK)
    return rows


def draw_theta(rng: np.random.Generator, shape: tuple[int, ...], norm: float) -> NDArray[np.float64]:
    """A uniformly random direction of the given length."""
    theta = rng.standard_normal(shape)
    return theta * (norm / np.linalg.norm(theta))


def assemble(
    rows: NDArray[np.float64],
    raw_target: NDArray[Any],
    kind: TargetKind,
    cap: float,
    truth: Mapping[str, Any],
) -> Synthetic:
    """Put together rows, targets and the schema that holds for them."""
    names = tuple(f"x{index}" for index in range(rows.shape[1]))
    schema = Schema(
        records=len(rows),
        features=tuple(Feature(name, Number(-cap, cap, UNSCALED)) for name in names),
        target=Target(TARGET_NAME, kind),
        intercept=False,
        row_norm=RowNorm(cap, includes_intercept=False),
        description="Synthetic: the bounds and the row-norm cap hold by construction.",
    )
    columns = {name: rows[:, index] for index, name in enumerate(names)}
    table = from_arrays({**columns, TARGET_NAME: raw_target})
    target, _ = kind.encode(TARGET_NAME, table.columns[TARGET_NAME], schema.missing_tokens)
    return Synthetic(rows, target, MappingProxyType(dict(truth)), schema, table)
