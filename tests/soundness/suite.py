"""Runs of the harness: which instances belong to which suite, and what a failure says."""

from collections.abc import Iterator
from functools import cache

from tests.soundness.compare import violations
from tests.soundness.registry import Instance, draw, generator_names

# Instances of each generator: drawn in every test run, which compares the first; the slow tests compare all of them.
EVERY_RUN, MANY = range(3), range(3, 55)


@cache
def drawn(name: str, seed: int) -> Instance:
    """An instance, drawn once a process."""
    return draw(name, seed)


def every_run() -> Iterator[tuple[str, Instance]]:
    """The instances of every test run, with their generators: the first of each, then further ones."""
    return ((name, drawn(name, seed)) for seed in EVERY_RUN for name in generator_names())


def failures(name: str, instances: dict[int, Instance]) -> list[str]:
    """A sentence for each reported number below the truth, with all that is needed to see it again."""
    return [
        f"{found}\n  draw({name!r}, {seed}): {instance.spec.to_dict()}"
        for seed, instance in instances.items()
        for found in violations(instance)
    ]


def assert_sound(name: str, seeds: range) -> None:
    """No theorem reports a number below the truth on these instances."""
    found = failures(name, {seed: drawn(name, seed) if seed in EVERY_RUN else draw(name, seed) for seed in seeds})
    assert not found, f"{len(found)} reported numbers are below the truth:\n" + "\n".join(found[:5])
