"""Rounds in the words of the papers: clip, batch, and noise over the sensitivity of a round.

Specs state noise over the contribution bound: under replace-one that is twice the number of the papers.
"""

from collections.abc import Mapping
from typing import Any

from sordino.core.bound import Relation
from sordino.core.spec import RUNS, Batch, NoisedSums, Scheme, Spec
from sordino.core.spec.schedules import ConstantSchedule, Schedule, Scheduled
from sordino.core.spec.sums import moves

QUERIES = {
    "message-passing": ("messages (described as message-passing)", "damping"),
    "variational": ("gradients (described as variational)", "step_size"),
    "em": ("expected statistics (described as em)", "components"),
}


def rounds(
    kind: str,
    relation: Relation | str,
    *,
    records: int,
    steps: int,
    sampling: Scheme | str,
    clip: float,
    noise_multiplier: Any,
    batch: int | None = None,
    **options: Any,
) -> NoisedSums:
    """The noised sums of message passing, variational inference or expectation maximisation."""
    query, option = QUERIES[kind]
    scheme = Scheme.RESHUFFLED if sampling == "passes" else Scheme(sampling)
    return NoisedSums(
        query=query,
        records=records,
        rounds=steps,
        sampling=Batch(scheme, batch),
        contribution=clip,
        noise_multiplier=Scheduled().read("noise_multiplier", noise_multiplier).times(moves(Relation(relation))),
        options=((option, _option(options[option])),),
    )


def _option(value: Any) -> Any:
    """A constant schedule is a number like any other."""
    found = Scheduled().read("an option", value) if isinstance(value, Mapping | Schedule) else value
    return found.value if isinstance(found, ConstantSchedule) else found


def stated_spec(document: Mapping[str, Any]) -> Spec:
    """A spec whose rounds, also those of its parts, are stated in these words."""

    def translated(value: Any) -> Any:
        if isinstance(value, Mapping):
            if value.get("kind") in QUERIES:
                return RUNS.write(rounds(relation=document["relation"], **value))
            return {name: translated(held) for name, held in value.items()}
        return [translated(held) for held in value] if isinstance(value, list) else value

    return Spec.from_dict(translated(document))
