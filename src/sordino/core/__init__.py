"""Numbers with a direction, guarantees and specs; also the version, and names that load on first use."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__version__ = "0.1.0"  # the build reads it from here

Exports = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazy_exports(package: str, source: str, loaded: dict[str, Any]) -> Exports:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its `__name__`, `__file__` and `globals()`.

    The stub beside the file has one line `from HOME import NAME as NAME` for each name; a package is the home of the
    packages below it. A name that was loaded is kept in `loaded`.
    """
    homes = {}
    with open(source.removesuffix("c") + "i", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if words[:1] == ["from"]:
                homes[words[-1]] = words[1]

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        loaded[name] = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        return loaded[name]

    return load, lambda: sorted({*loaded, *homes}), sorted(homes)
