"""Where random numbers come from: a release draws from its `Randomness` and from nothing else.

One stray generator with a fixed seed in the path of a release, and its noise can be subtracted. So every place that
makes a generator or draws from a global one is listed here with the reason why it may; generators that are handed in
are drawn from freely.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import sordino

ROOT = Path(sordino.__file__).parent

# Whole layers that release nothing: they train on data of their own making, or replay published figures.
LAYERS = {"auditing/": "an audit attacks models it trains itself; its seed policy is part of its answer"}
FILES = {
    "noise/randomness.py": "the seeded source, whose releases are marked NON-PRIVATE",
    "noise/secure.py": "the secure source and keys: ChaCha20; a caller's own keys are marked NON-PRIVATE",
    "noise/port.py": "scales of stable noise, from the keys that a caller passes to the pure chain",
    "mechanisms/chain/functional.py": "batches of the pure chain, with the same keys",
    "mechanisms/regression/prior.py": "public rows from a fixed seed, which say how gradients bend: no data, no noise",
    "mechanisms/regression/posterior.py": "public numbers for draws from a posterior: no data, no noise",
    "cli/predict.py": "predictive draws from a stored release: post-processing",
    "inference/margins.py": "draws from a released posterior by name, and predictive ones: post-processing",
    "inference/release.py": "predictive draws from a released posterior: post-processing",
    "inference/summary.py": "draws from a released posterior for its intervals: post-processing",
    "fitting/predictor.py": "predictive draws from a released posterior: post-processing",
    "estimators/linear.py": "predictive draws from a fitted release: post-processing",
    "estimators/replay.py": "tables drawn for an audit, whose fits are marked and leave nowhere",
    "estimators/supervised.py": "predictive draws from a fitted release: post-processing",
    "fitting/custom_methods.py": "draws from a released posterior: post-processing",
    "fitting/custom_training.py": "keys of seeded chains, whose release is marked; one that predictions do not use",
    "mechanisms/variational/natural.py": "draws from a released posterior: post-processing",
    "models/custom/modules.py": "weights to begin from, which are public",
    "models/custom/numpyro_program.py": "public starts, stand-ins for rows, and draws of the model from a public key",
    "models/custom/base.py": "public keys that follow from one row, for what its model would observe: no noise",
    "mechanisms/networks/training.py": "a drawn example, on which the device is checked: no data, no noise",
    "mechanisms/statistics/population.py": "draws released tables again for tests and curves: post-processing",
    "mechanisms/statistics/answers.py": "draws the known noise again for intervals of a look: post-processing",
    "mechanisms/regression/ridge.py": "public directions from a fixed seed: no data, no noise",
    "fitting/methods/natural.py": "rows of a public law from a fixed seed: no data, no noise",
    "fitting/problem.py": "makes the stand-in data; one seed a part, for fits that are marked NON-PRIVATE",
}
# A generator as the type of an argument makes no draws.
TYPES = frozenset({"Generator"})
MODULES = frozenset({"numpy.random", "jax.random", "random"})
DRAWING_METHODS = frozenset({"rvs", "check_random_state", "PRNGKey", "default_rng", "RandomState"})


def sources_of_randomness(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and name of everything in a file that makes a generator, or draws without having been handed one."""
    names = imported_names(tree)
    found = []
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    # A class made from a generator makes generators.
    called |= {id(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
    for node in ast.walk(tree):
        name = dotted(node, names)
        module, _, last = name.rpartition(".")
        is_type = last in TYPES and id(node) not in called
        if (module in MODULES and not is_type) or (isinstance(node, ast.Attribute) and node.attr in DRAWING_METHODS):
            found.append((getattr(node, "lineno", 0), name or ast.unparse(node)))
    return found


def imported_names(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for, as a dotted path."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """`np.random.normal` with `np` spelled out; empty for anything that is not such a path."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])


@cache
def places() -> dict[str, list[tuple[int, str]]]:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    # Parsing takes time, and a file that has none of these words has no source either.
    words = ("random", *DRAWING_METHODS)
    trees = {path: ast.parse(text) for path, text in texts.items() if any(word in text for word in words)}
    found = {path.relative_to(ROOT).as_posix(): sources_of_randomness(tree) for path, tree in trees.items()}
    return {name: sources for name, sources in found.items() if sources}


def test_nothing_in_the_path_of_a_release_makes_its_own_random_numbers():
    stray = {
        name: found for name, found in places().items() if name not in FILES and not name.startswith(tuple(LAYERS))
    }
    assert stray == {}


def test_every_exception_is_still_needed():
    found = places()
    assert [name for name in FILES if name not in found] == []
    assert [layer for layer in LAYERS if not any(name.startswith(layer) for name in found)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnp.random.default_rng(0)",
        "import numpy as np\nnp.random.normal()",
        "import numpy as np\nnp.random.Generator(np.random.PCG64())",
        "import numpy\nnumpy.random.seed(1)",
        "from numpy.random import default_rng\ndefault_rng()",
        "from numpy import random as chance\nchance.normal()",
        "import jax\njax.random.normal(key)",
        "from jax import random\nrandom.split(key)",
        "import jax.random as jr\njr.key(0)",
        "import random\nrandom.random()",
        "from random import gauss\ngauss(0, 1)",
        "import random\ndraw = random.Random(3).gauss",
        "from scipy import stats\nstats.norm.rvs(3)",
        "def f():\n    import numpy as np\n    return np.random.laplace()",
        "import numpy as np\nclass Own(np.random.Generator): pass",
    ],
)
def test_the_walk_finds_a_source(text):
    assert sources_of_randomness(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\ndef f(generator: np.random.Generator): return generator.normal()",
        "from sordino.noise.randomness import Randomness",
        "import secrets\nsecrets.token_bytes(32)",
        "random = 3\nprint(random)",
    ],
)
def test_the_walk_lets_what_is_handed_in_pass(text):
    assert sources_of_randomness(ast.parse(text)) == []


# Samplers of noise: imported, or called as methods, in the noise package alone. An audit that replays a run hands on
# what the source under test draws, a chain the stream of its mixing variables to the sampler in the noise package.
SAMPLERS = frozenset(
    {"rounded_gaussians", "settled_steps", "step_gaussians", "ExactGaussians"}
    | {"whole_gaussians", "whole_laplace", "mixing_scale", "gaussians_from_words"}
)
STREAMS = frozenset({"NOISE", "MIXING", "AVERAGE"})
HANDS_ON = {"auditing/replay/port.py", "mechanisms/chain/run.py"}


def drawn(tree: ast.AST) -> set[str]:
    """The samplers that a file imports or calls, and the streams of noise that it names."""
    imported = {name.rpartition(".")[2] for name in imported_names(tree).values() if name.startswith("sordino.noise")}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func in attributes}
    streams = {f"{node.attr}" for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "Purpose"}
    return ((imported | called) & SAMPLERS) | (streams & STREAMS)


def test_no_module_but_the_noise_package_draws_noise():
    """So that every noised number comes through `noise/port.py`, or through a kernel's call of it."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith("noise/") and any(word in text for word in (*SAMPLERS, "Purpose.")):
            found[name] = drawn(ast.parse(text))
    assert {name for name, samplers in found.items() if samplers} == HANDS_ON


def test_draws_outside_the_noise_package_are_public():
    """`Randomness.gaussians` gives starts and draws of a guide there, and never noise."""
    for path in sorted(ROOT.rglob("*.py")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if name.startswith("noise/") or name in HANDS_ON or ".gaussians(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "gaussians":
                assert ast.unparse(node.args[0]) in ("Purpose.START", "Purpose.DRAWS"), name
