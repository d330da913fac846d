"""`import sordino` is quick and leaves the heavy libraries alone."""

import subprocess
import sys

HEAVY = ("jax", "pandas", "plotly", "dp_accounting")
BUDGET_SECONDS = 0.4
REPORT = """
import sys, time
start = time.perf_counter()
import sordino
print(time.perf_counter() - start)
print(" ".join(sorted(name for name in sys.modules if "." not in name)))
"""


def import_in_a_fresh_interpreter() -> tuple[float, set[str]]:
    """Seconds that `import sordino` adds, and the top-level modules present afterwards."""
    run = subprocess.run([sys.executable, "-c", REPORT], capture_output=True, text=True, check=True, timeout=60)
    seconds, modules = run.stdout.splitlines()
    return float(seconds), set(modules.split())


def test_import_leaves_the_heavy_libraries_alone():
    _, modules = import_in_a_fresh_interpreter()
    assert "sordino" in modules
    assert modules.isdisjoint(HEAVY)


def test_import_is_quick():
    # The best of three: a busy machine can only make an import look slower than it is.
    assert min(import_in_a_fresh_interpreter()[0] for _ in range(3)) < BUDGET_SECONDS
