"""One spec for every cell of the table kind x relation x scheme x view x noise that a spec can state."""

from functools import cache
from typing import Any

from docs.cells import Cell, statable
from sordino.accounting.scope import noise_of, scheme_of
from sordino.core.bound import View
from sordino.core.spec import ALGORITHMS, NoisyGradient, Spec
from tests.conformance.examples import EXAMPLES, changed

_NOISE = {"gaussian": {"kind": "gaussian", "scale": 0.05}, "stable": {"kind": "stable", "alpha": 1.5, "scale": 0.05}}
_AVERAGE = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "laplace", "scale": 1.0}}


@cache
def stated_cells() -> dict[Cell, Spec]:
    """Cell -> a spec in it, built from the examples; cells that the reader refuses are absent."""
    found: dict[Cell, Spec] = {}
    for spec in EXAMPLES.values():
        for cell in statable(ALGORITHMS.word_of(spec.algorithm)):
            made = None if cell in found else changed(spec, _values(spec, cell))
            if made is not None:
                found[cell] = made
    return found


def cell_of(spec: Spec) -> Cell:
    """The cell a spec is in."""
    scheme, noise = scheme_of(spec.algorithm), noise_of(spec.algorithm)
    return Cell(ALGORITHMS.word_of(spec.algorithm), spec.relation, str(scheme or "-"), spec.view, noise or "-")


def _values(spec: Spec, cell: Cell) -> dict[str, Any]:
    average = _AVERAGE if cell.view is View.AVERAGE and cell.kind == "noisy-gradient" else None
    values = {"relation": cell.relation.value, "view": cell.view.value, "average": average}
    if isinstance(spec.algorithm, NoisyGradient):
        batch = {"scheme": cell.scheme, "size": None if cell.scheme == "full" else max(1, spec.n // 10)}
        return values | {"algorithm.batch": batch, "algorithm.noise": _NOISE[cell.noise], "algorithm.keep": None}
    if cell.scheme != "-":
        return values | {"algorithm.sampling": {"scheme": cell.scheme, "size": None if cell.scheme == "full" else 10}}
    return values
