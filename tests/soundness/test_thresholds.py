"""No number is below the truth on either side of a size at which the code changes its way, and no size is forgotten."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sordino
from sordino.accounting.evaluate import evaluate, theorems
from sordino.core.bound import Bound
from sordino.core.validate import InputError
from tests.soundness import long_runs
from tests.soundness.compare import violations
from tests.soundness.not_sizes import INLINE, NOT_SIZES
from tests.soundness.registry import Instance
from tests.soundness.thresholds import THRESHOLDS, Draw, Threshold

ROOT = Path(sordino.__file__).parent
SOURCES = ("accounting/**/*.py", "core/loss/*.py", "core/guarantee/*.py", "core/*.py", "core/spec/document.py")
# Smaller numbers are accuracies and shares.
SMALLEST_SIZE = 16
# All theorems are asked about runs up to this long, only those that are named about longer ones.
FEW_STEPS = 3000
# Modules about refusals and printed tables, and literals that decide only how a number or a place in a file is written.
PRINTING = {"core.results", "core.validate"}
OF_PRINTED_DIGITS = {120, 1e6}

SIDES = [
    pytest.param(
        threshold,
        draw,
        beyond,
        id=f"{threshold.constant}-{'far' if beyond else 'near'}-{place}",
        # One run on either side of every sixth size in every run of the tests, further ones with the slow tests.
        marks=[pytest.mark.slow] if threshold.slow or place or (number - 2) % 6 else [],
    )
    for number, threshold in enumerate(THRESHOLDS)
    for beyond, draws in ((False, threshold.near), (True, threshold.far))
    for place, draw in enumerate(draws)
]


def asked(threshold: Threshold, instance: Instance) -> list:
    steps = instance.spec.to_dict()["algorithm"].get("steps", 0)
    short = steps <= FEW_STEPS and "without-replacement" not in str(instance.spec.to_dict())
    return [found for found in theorems() if short or found.id in threshold.theorems]


@pytest.mark.parametrize(("threshold", "draw", "beyond"), SIDES)
def test_no_bound_is_below_the_truth_on_either_side(threshold: Threshold, draw: Draw, beyond: bool) -> None:
    instance = draw()
    assert (threshold.size(instance.spec) > threshold.value) is beyond
    named = [found for found in theorems() if found.id in threshold.theorems]
    answered = [isinstance(evaluate(found, instance.spec), Bound) for found in named]
    assert any(answered) is not (beyond and threshold.refused)
    found = violations(instance, asked(threshold, instance))
    assert not found, "\n".join(map(str, found[:5]))


def test_every_threshold_has_runs_on_both_sides() -> None:
    assert len({threshold.constant for threshold in THRESHOLDS}) == len(THRESHOLDS)
    for threshold in THRESHOLDS:
        assert threshold.near, threshold.constant
        assert threshold.far or threshold.refused, threshold.constant


def test_more_parts_than_the_most_are_not_read() -> None:
    with pytest.raises(InputError, match="parts to have at most"):
        long_runs.composite([50.0] * 1001)


def constants() -> Iterator[tuple[str, float]]:
    """Every number that a module gives a name at its top, as "module:NAME"."""
    for path in sorted({found for pattern in SOURCES for found in ROOT.glob(pattern)}):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name in PRINTING:
            continue
        module = importlib.import_module(f"sordino.{name.removesuffix('.__init__')}")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_arithmetic(node.value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    yield f"{name}:{ast.unparse(one)}", float(np.max(np.abs(getattr(module, ast.unparse(one)))))


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether an expression is made of numbers, names of numbers and operators, with a number among them."""
    numbers = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    plain = all(
        isinstance(
            part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.Name | ast.Tuple | ast.Load
        )
        for part in ast.walk(node)
    )
    return plain and bool(numbers) and all(type(part.value) in {int, float} for part in numbers)


def test_every_size_in_the_code_is_in_the_table() -> None:
    """A new limit must be given runs on both sides of it, or a reason why it limits no size."""
    found = {name for name, value in constants() if value >= SMALLEST_SIZE}
    listed = {threshold.constant for threshold in THRESHOLDS} | set(NOT_SIZES)
    assert found - listed == set()
    assert listed - found == set()


def test_every_literal_that_decides_is_known() -> None:
    """Comparisons, minima and maxima with a number of 16 or more that has no name."""
    found: dict[str, set[float]] = {}
    for path in sorted({one for pattern in SOURCES for one in ROOT.glob(pattern)}):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for value in _deciding(node):
                found.setdefault(name, set()).add(value)
    found = {name: values - OF_PRINTED_DIGITS for name, values in found.items() if name not in PRINTING}
    found = {name: values for name, values in found.items() if values}
    assert {name: set(values) for name, values in INLINE.items()} == found


def _deciding(node: ast.AST) -> Iterator[float]:
    parts: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"min", "max", "np.minimum", "np.maximum"}:
        parts = node.args
    elif isinstance(node, ast.FunctionDef):
        parts = [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
    for part in parts:
        if isinstance(part, ast.Constant) and type(part.value) in {int, float} and abs(part.value) >= SMALLEST_SIZE:
            yield part.value
