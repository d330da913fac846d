"""What the message-passing theorems need beyond their composition: messages see one record and released values only."""

from sordino.accounting.assumption import caller_checked
from sordino.accounting.registry import Monotone
from sordino.core.view import View

KINDS = frozenset({"message-passing"})
VIEWS = frozenset({View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})

MONOTONE = (("algorithm.noise_multiplier", Monotone.FALLS), ("algorithm.steps", Monotone.RISES))

CLIPPED_MESSAGES = caller_checked(
    "clipped messages",
    "each record's stacked message is a function of the record and of released values, is shortened to the clip as a "
    "whole (unknown precisions included), and step and noise share one damping",
)
PUBLIC_SCALING = caller_checked(
    "public scaling", "features and targets are scaled by declared bounds, not by values computed from the records"
)
