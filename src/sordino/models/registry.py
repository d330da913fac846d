"""The models that a command line or a release can name, as words and back, and models from any JAX loss."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Annotated

from jax import Array

from sordino.core.bound import Evidence
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import COUNT, InputError, Json, one_of, refuse
from sordino.models.base import FAMILIES, Model
from sordino.models.facts import NOTHING_KNOWN, Domain, LossFacts

_FAMILIES = import_module("sordino.models.families")
for _found in iter_modules(_FAMILIES.__path__):
    import_module(f"{_FAMILIES.__name__}.{_found.name}")

MODELS: MappingProxyType[str, type[Model]] = MappingProxyType(FAMILIES)


def build_model(named: NamedModel, where: str = "model") -> Model:
    """The model that the words describe; anything unknown is refused, and `where` is said to be the place of it."""
    kind = MODELS[one_of(f"{where}.name", named.name, MODELS)]
    known = [field.name for field in fields(kind)]
    if unknown := [name for name, _ in named.parameters if name not in known]:
        allowed = f"to be among {', '.join(known)}"
        raise InputError(f"Expected {where}.parameters of {named.name} {allowed}, got {unknown[0]!r}.")
    arguments: Json = dict(named.parameters)
    try:
        return kind(**arguments)
    except TypeError as error:
        needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
        if missing := [name for name in needed if name not in arguments]:
            raise InputError(f"{where}.parameters of {named.name} lacks {missing[0]!r}.") from None
        found = f"got {arguments!r:.80} ({error})."
        raise InputError(f"Expected {where}.parameters that fit {named.name}, {found}") from None


@dataclass(frozen=True)
class JaxModel(Model):
    """`loss_fn(theta, x, y)` is minus the log-likelihood of one example; theta is flat, of length `parameters`.

    Clipping certifies the size of its gradients. Facts that the caller vouches for go into `declared`; they are never
    marked better than declared.
    """

    loss_fn: Callable[[Array, Array, Array], Array]
    parameters: Annotated[int, COUNT]
    declared: LossFacts = NOTHING_KNOWN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.loss_fn):
            raise refuse("loss_fn", "to be a function of (theta, x, y)", self.loss_fn)
        if self.declared != NOTHING_KNOWN and self.declared.evidence > Evidence.DECLARED:  # nothing here could check it
            word = self.declared.evidence.word
            raise refuse("the evidence of declared facts", "to be at most declared", word, "use Evidence.DECLARED")

    def dim(self, features: int) -> int:
        return self.parameters

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return self.loss_fn(theta, x, y)

    def facts(self, domain: Domain) -> LossFacts:
        return self.declared
