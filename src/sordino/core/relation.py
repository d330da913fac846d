"""Which datasets count as neighbours. There is no default anywhere: a caller must say."""

from enum import StrEnum


class Relation(StrEnum):
    """Neighbouring relation of two datasets.

    ``replace-one``: equal size, one record differs. ``add-remove``: one dataset has one record more.
    An add-remove guarantee gives a replace-one guarantee by two-fold group privacy; the converse does not hold.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
