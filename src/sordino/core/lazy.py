"""Names that a package loads on first use (PEP 562), from one table: the stub that type checkers read."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

Exports = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazy_exports(package: str, source: str, loaded: dict[str, Any]) -> Exports:
    """`__getattr__`, `__dir__` and `__all__` of a package.

    Args:
        package: its `__name__`.
        source: its `__file__`; the stub beside it has one line `from HOME import NAME as NAME` for each name, where
            the package itself is the home of packages below it.
        loaded: its `globals()`, where a name is kept once it was loaded.
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
