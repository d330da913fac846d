"""What the Tab key offers for a value. Words that cost a second of imports are looked up only when asked for."""

import re
from collections.abc import Iterable
from pathlib import Path

import typer

from sordino.core.relation import Relation

# An item is registered as @item(name="...", ...).
_ITEM_NAME = re.compile(r"@item\(\s*name=\"([a-z0-9-]+)\"")


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted(word for word in words if word.startswith(incomplete))


def models(incomplete: str) -> list[str]:
    """The models that `fit` knows."""
    from sordino.cli.fit import MODELS  # noqa: PLC0415

    return _beginning(MODELS, incomplete)


def methods(context: typer.Context, incomplete: str) -> list[str]:
    """How the model that was named can be fitted; before one is named, every method."""
    from sordino.estimators.named import methods_of  # noqa: PLC0415

    # Behind an option that still waits for its value, words that came before are left over instead of parsed.
    model = context.params.get("model") or next(iter(context.args), None)
    return _beginning(methods_of(model), incomplete)


def relations(incomplete: str) -> list[str]:
    """Which datasets can be neighbours."""
    return _beginning(Relation, incomplete)


def audit_methods(incomplete: str) -> list[str]:
    """How a run can be audited."""
    from sordino.audit import audit_methods as registered  # noqa: PLC0415

    return _beginning(registered(), incomplete)


def knobs(incomplete: str) -> list[str]:
    """What `calibrate` can turn."""
    from sordino.accounting.knobs import KNOBS  # noqa: PLC0415

    return _beginning(KNOBS, incomplete)


def filters(incomplete: str) -> list[str]:
    """The filters a ledger can be opened with."""
    from sordino.ledger import filter_kinds  # noqa: PLC0415

    return _beginning(filter_kinds(), incomplete)


def papers_folder() -> Path | None:
    """The folder `papers/` of the checkout this package runs from, or None where it is installed without one."""
    folder = Path(__file__).resolve().parents[3] / "papers"
    return folder if (folder / "framework" / "item.py").is_file() else None


def items(incomplete: str) -> list[str]:
    """The items of `reproduce`, by the text of their files: importing them all would take seconds."""
    folder = papers_folder()
    files = sorted(folder.glob("*/*.py")) if folder is not None else []
    texts = (file.read_text(encoding="utf-8") for file in files if file.parent.name != "framework")
    return _beginning((name for text in texts for name in _ITEM_NAME.findall(text)), incomplete)
