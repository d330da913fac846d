"""Imports go one way: a layer imports only itself and the layers to its left.

Imports inside functions count too: a lazy import hides a dependency from the clock, not from the design.
"""

import ast
import re
from pathlib import Path

import pytest

import sordino

ROOT = Path(sordino.__file__).parent
LAYERS = (
    ("core",),
    ("data",),
    ("models",),
    ("noise",),
    ("mechanisms",),
    ("engines",),
    ("accounting",),
    ("ledger",),
    ("auditing",),
    ("fitting",),
    ("inference",),
    ("explore",),
    ("estimators",),
    ("report",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# `sordino/__init__.py` re-exports the public names, so it stands above everything and nothing may import from it.
TOP = len(LAYERS)


def upward_imports(root: Path) -> list[str]:
    """Every import under `root` (a package called sordino) that does not go downwards, as `file:line: sentence`."""
    return [
        f"{path.relative_to(root)}:{line}: {here} may not import {there}"
        for path in sorted(root.rglob("*.py"))
        for here in [layer_of(path.relative_to(root).with_suffix("").parts)]
        for line, target in imported_modules(path, root)
        for there in [layer_of(target)]
        if not allowed(here, there)
    ]


def allowed(here: str, there: str) -> bool:
    if here == there:
        return True
    return rank(there) < rank(here)


def rank(layer: str) -> int:
    return TOP if layer == "sordino" else RANK[layer]


def layer_of(parts: tuple[str, ...]) -> str:
    """`("core", "view")` is in core; the package's own `__init__` and its private names are "sordino"."""
    return parts[0] if parts and parts[0] in RANK else "sordino"


def imported_modules(path: Path, root: Path) -> list[tuple[int, tuple[str, ...]]]:
    """Line number and module path inside the package of each import of the package in one file."""
    package = path.relative_to(root).parent.parts
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
            found += [(node.lineno, name[1:]) for name in names if name[0] == "sordino"]
        elif isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                module = ("sordino", *package[: len(package) - node.level + 1], *module)
            if module[:1] == ("sordino",):
                # `from sordino import core` names the layer in the alias, not in the module.
                found += [(node.lineno, (*module[1:], alias.name)) for alias in node.names]
    return found


def test_no_layer_imports_upwards():
    assert upward_imports(ROOT) == []


# The rooms of `mechanisms`, lowest first. A chain writes checkpoints. Rounds use the chain's batches and rows, not the
# other way round, and registered queries and regressions run in rounds.
ROOMS = (
    ("checkpoint",),
    ("chain",),
    ("posterior",),
    ("rounds",),
    ("statistics", "networks", "messages", "mixture", "variational"),
    ("regression",),
    ("propose_test_sample", "posterior_sample"),
)


def room_of(parts: tuple[str, ...]) -> int:
    """The rank of a module of `mechanisms`; the package's own `__init__` stands above all rooms."""
    named = ".".join(parts)
    ranks = {name: rank for rank, names in enumerate(ROOMS) for name in names}
    fitting = [name for name in ranks if named == name or named.startswith(f"{name}.")]
    return ranks[max(fitting, key=len)] if fitting else len(ROOMS)


def upward_in_rooms(root: Path) -> list[str]:
    """Every import inside `mechanisms` that goes to a higher room."""
    violations = []
    for path in sorted((root / "mechanisms").rglob("*.py")):
        parts = path.relative_to(root / "mechanisms").with_suffix("").parts
        here = room_of(tuple(part for part in parts if part != "__init__"))
        for line, target in imported_modules(path, root):
            if target[:1] == ("mechanisms",) and room_of(target[1:]) > here:
                violations.append(f"{path.relative_to(root)}:{line}: may not import {'.'.join(target)}")
    return violations


def test_no_room_of_the_mechanisms_imports_upwards():
    assert upward_in_rooms(ROOT) == []


def test_every_room_is_known():
    modules = {path.relative_to(ROOT / "mechanisms").parts[0] for path in (ROOT / "mechanisms").rglob("*.py")}
    known = {name.split(".")[0] for names in ROOMS for name in names} | {"__init__"}
    assert {name.removesuffix(".py") for name in modules} - known == set()


@pytest.mark.parametrize(
    ("name", "text", "violations"),
    [
        ("mechanisms/chain/run.py", "from sordino.mechanisms.rounds import Query\n", 1),
        ("mechanisms/checkpoint.py", "from .chain.rows import Rows\n", 1),
        ("mechanisms/chain/run.py", "from sordino.mechanisms.checkpoint import Keeper\n", 0),
        ("mechanisms/checkpoint.py", "from sordino.mechanisms.chain.release import LastIterate\n", 1),
        ("mechanisms/rounds.py", "from sordino.mechanisms.posterior.laws import Posterior\n", 0),
        ("mechanisms/chain/run.py", "from sordino.mechanisms import run\n", 1),
    ],
)
def test_the_walk_through_the_rooms(tree, name, text, violations):
    assert len(upward_in_rooms(tree(name, text))) == violations


def test_the_package_does_not_import_the_papers():
    """They stand outside the wheel; one command finds their folder at run time."""
    importing = [
        path for path in ROOT.rglob("*.py") if re.search(r"^\s*(from|import) papers\b", path.read_text("utf-8"), re.M)
    ]
    assert importing == []


def test_every_folder_of_the_package_is_a_known_layer():
    folders = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py") if path.parent != ROOT}
    assert folders - set(RANK) == set()


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "sordino"

    def write(name: str, text: str) -> Path:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        return root

    return write


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/bound.py", "import sordino.accounting.tightest\n"),
        ("noise/integer_sums.py", "from sordino.mechanisms.chain.batches import bucket\n"),
        ("mechanisms/messages.py", "from sordino.engines import totals\n"),
        ("core/bound.py", "from sordino.data import schema\n"),
        ("core/bound.py", "from sordino import accounting\n"),
        ("core/bound.py", "from sordino import Bound\n"),
        ("core/bound.py", "from ..accounting import tightest\n"),
        ("core/bound.py", "from .. import accounting\n"),
        ("core/deep/view.py", "from ...ledger.budget import Budget\n"),
        ("accounting/lazy.py", "def f():\n    from sordino.auditing import exact\n    return exact\n"),
        ("accounting/typing.py", "if TYPE_CHECKING:\n    from sordino.ledger.budget import Budget\n"),
        ("report/page.py", "from sordino.cli import main\n"),
        ("estimators/base.py", "import numpy, sordino.cli\n"),
    ],
)
def test_the_walk_catches_an_upward_import(tree, name, text):
    violations = upward_imports(tree(name, text))
    assert len(violations) == 1
    assert violations[0].startswith(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("accounting/convert.py", "from sordino.core.bound import View\nfrom sordino.accounting import tightest\n"),
        ("accounting/theorems/a.py", "from ..registry import theorem\nfrom ...core import view\n"),
        ("cli/audit.py", "def f():\n    from sordino.report import page\n    return page\n"),
        ("__init__.py", "from sordino.core.bound import View as View\nfrom .cli import main as main\n"),
        ("core/bound.py", "import numpy\nfrom math import inf\n"),
    ],
)
def test_the_walk_lets_a_downward_import_pass(tree, name, text):
    assert upward_imports(tree(name, text)) == []
