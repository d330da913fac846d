"""What a result was made with: the kind of processor, and the packages that its last digits depend on.

Files are the same byte for byte on one kind. On another kind the numbers are compared instead, to a stated tolerance.
"""

import json
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sordino.core.atomic_write import write_file

# A processor, or a GPU where that is what computed, and the versions of Python and packages.
Kind = dict[str, str]
_PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "matplotlib")
FILE = "made-on.json"


def this_kind(gpu: str | None = None) -> Kind:
    """The kind of this process; `gpu` is the name of the device where one computes in the processor's place."""
    major, minor, _ = platform.python_version_tuple()
    return {"processor": gpu or _processor(), "python": f"{major}.{minor}"} | {
        name: _version(name) for name in _PACKAGES
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _processor() -> str:
    """Vendor, family and model: what decides which instructions numerical packages choose."""
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    except OSError:
        fields = {}
    if "vendor_id" not in fields:
        return f"{platform.machine()} {platform.processor()}".strip()
    return f"{platform.machine()} {fields['vendor_id']} family {fields.get('cpu family')} model {fields.get('model')}"


def unlike(here: Kind, there: Kind) -> str:
    """Where two kinds are not the same, in words; empty where they are."""
    parts = [name for name in {**there, **here} if here.get(name) != there.get(name)]
    return ", ".join(f"{name} {here.get(name, 'none')} here and {there.get(name, 'none')} there" for name in parts)


def made_on(folder: Path) -> dict[str, Kind]:
    """The kind that each result in the folder was made on, by name; nothing where no file says it."""
    path = folder / FILE
    if not path.is_file():
        return {}
    groups = json.loads(path.read_text(encoding="utf-8"))
    return {name: group["kind"] for group in groups for name in group["made"]}


def write_made_on(folder: Path, names: Iterable[str], kind: Kind) -> None:
    """Note that these results were made on this kind; what is noted of the others stays."""
    known = made_on(folder) | dict.fromkeys(names, kind)
    kinds = [one for place, one in enumerate(known.values()) if one not in list(known.values())[:place]]
    groups = [{"kind": one, "made": sorted(name for name in known if known[name] == one)} for one in kinds]
    text = json.dumps(sorted(groups, key=lambda group: group["made"]), indent=1)
    write_file(folder / FILE, (text + "\n").encode())
