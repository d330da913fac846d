"""What the figures were measured on: cores, memory, load, and versions."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CODE = ("src", "bench", "pyproject.toml", ":(exclude)bench/pages", ":(exclude)bench/recorded")
OWN = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn", "dp-accounting", "pandas", "pyarrow")


def machine() -> dict[str, Any]:
    """Cores that may be used, memory in GB, and the load when this was asked."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(pages / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def own_versions() -> dict[str, str]:
    """Versions of what Sordino runs on here."""
    found = {}
    for name in ("sordino", *OWN):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def measured_code() -> str:
    """The last commit that changed what is measured or measures; marked where files differ from it.

    Later commits of pages alone are the same code.
    """
    try:
        found = _git("log", "-1", "--format=%h", "--abbrev=12", "--", *CODE)
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{found}, changed" if changed else found


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
