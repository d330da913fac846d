"""A promise about Sordino alone: a ratio of two figures of one run, what it should be, and whether it is."""

from typing import Any, NamedTuple


class Target(NamedTuple):
    """A ratio, what it should be (None: reported, not promised), and which way is better."""

    name: str
    ratio: float
    wanted: float | None
    at_least: bool

    @property
    def met(self) -> bool | None:
        if self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.at_least else self.ratio <= self.wanted


def as_dicts(targets: list[Target]) -> list[dict[str, Any]]:
    return [target._asdict() | {"met": target.met} for target in targets]
