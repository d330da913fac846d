"""A model as words: its registered name and its parameters, written to files and read back."""

from dataclasses import fields
from typing import Any

from sordino.core.errors import InputError
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import one_of
from sordino.model.base import Model
from sordino.model.registry import MODELS


def describe_model(model: Model) -> NamedModel | None:
    """The words for a registered model; None for one of the user's own, which no file can hold."""
    name = next((name for name, kind in MODELS.items() if type(model) is kind), None)
    if name is None:
        return None
    return NamedModel(name, tuple((field.name, getattr(model, field.name)) for field in fields(model)))


def build_model(named: NamedModel, where: str = "model") -> Model:
    """The model that the words describe; anything unknown is refused, and `where` is said to be the place of it."""
    kind = MODELS[one_of(f"{where}.name", named.name, MODELS)]
    known = {field.name: field.type for field in fields(kind)}
    unknown = [name for name, _ in named.parameters if name not in known]
    if unknown:
        raise InputError(
            f"Expected {where}.parameters of {named.name} to be among {', '.join(known)}, got {unknown[0]!r}."
        )
    arguments: dict[str, Any] = dict(named.parameters)
    try:
        return kind(**arguments)
    except TypeError:
        missing = [field.name for field in fields(kind) if field.name not in arguments]
        raise InputError(f"Expected {named.name} to have all its parameters, got none for {missing}.") from None
