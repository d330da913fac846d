"""Charging a bound under one relation to a budget under another."""

from sordino.accounting.convert import replace_one_from_add_remove
from sordino.core.bound import Bound
from sordino.core.errors import InputError
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation


def under_relation(bound: Bound, relation: Relation) -> Guarantee:
    """The bound's guarantee under the budget's relation.

    An add-remove bound is charged to a replace-one budget as a group of two; the converse is refused.
    """
    if bound.relation is relation:
        return bound.guarantee
    if relation is Relation.REPLACE_ONE:
        return replace_one_from_add_remove(bound.guarantee, bound.relation)
    raise InputError(
        f"Expected a bound under {relation}, the relation of the budget, got one under {bound.relation}; a replace-one "
        "bound says nothing about datasets of different size."
    )
