"""Every check catches a theorem that is wrong in the way it looks for; a check that cannot fail says nothing."""

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from sordino.accounting.evaluate import Theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.composition import gaussian
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import NoisyGradient, Spec
from tests.conformance.checks import CHECKS

SCOPE = gaussian.scope


class Loose(GaussianDP):
    """Can be changed after it was given out."""

    __setattr__ = object.__setattr__


@dataclass(frozen=True)
class Rounded(GaussianDP):
    """Loses digits on the way to JSON."""

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "gaussian", "mu": round(self.mu, 2)}


@dataclass(frozen=True)
class Backwards(GaussianDP):
    """Claims a smaller epsilon for a smaller delta."""

    def epsilon(self, delta: float) -> float:
        return delta


class Boundless(Scope):
    """Accepts runs it does not list."""

    def failure(self, spec: Spec) -> str | None:
        return None


class Boastful(Scope):
    """Lists runs it does not accept."""

    def failure(self, spec: Spec) -> str | None:
        return super().failure(spec) or "is about other runs"


def chains_as_mu(spec: Spec) -> GaussianDP:
    return GaussianDP(spec.algorithm.chains if isinstance(spec.algorithm, NoisyGradient) else 1.0)


def steps_as_noise(spec: Spec) -> GaussianDP:
    return GaussianDP(1 / spec.algorithm.steps if isinstance(spec.algorithm, NoisyGradient) else 1.0)


def with_scope(kind: type[Scope]) -> Scope:
    return kind(SCOPE.kinds, SCOPE.views, SCOPE.batches, SCOPE.noises)


numbers = count(1)
unbreakable = replace(gaussian.assumptions[0], failure=lambda _: None)
BROKEN: dict[str, Theorem] = {
    "an_example_spec_reaches_it": replace(gaussian, scope=replace(SCOPE, kinds=frozenset({"posterior-sample"}))),
    "it_says_what_it_states_and_where_it_is_proved": replace(gaussian, statement=""),
    "its_answers_carry_everything_and_are_frozen": replace(gaussian, proof=lambda _: Loose(1.0)),
    "its_bounds_survive_json_exactly": replace(gaussian, proof=lambda _: Rounded(1.23456)),
    "it_is_deterministic": replace(gaussian, proof=lambda _: GaussianDP(next(numbers))),
    "it_refuses_constants_that_read_private_data": replace(gaussian, assumptions=()),
    "it_refuses_every_cell_outside_its_scope": replace(
        gaussian,
        scope=with_scope(Boundless),
        proof=lambda _: GaussianDP(1.0),
        certificates=lambda _: (),
        assumptions=(),
    ),
    "it_answers_in_every_cell_of_its_scope": replace(gaussian, scope=with_scope(Boastful)),
    "each_assumption_can_fail_and_says_so": replace(gaussian, assumptions=(unbreakable,)),
    "its_epsilon_moves_the_right_way": replace(gaussian, proof=steps_as_noise),
    "its_epsilon_falls_as_delta_grows": replace(gaussian, proof=lambda _: Backwards(1.0)),
    "chains_and_draws_multiply": replace(gaussian, proof=chains_as_mu),
}


def test_every_check_has_a_theorem_it_must_catch() -> None:
    assert set(BROKEN) == set(CHECKS)


@pytest.mark.parametrize("name", BROKEN)
def test_a_check_catches_what_it_looks_for(name: str) -> None:
    CHECKS[name](gaussian)
    # pytest.fail's own exception is what a missing FrozenInstanceError looks like.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        CHECKS[name](BROKEN[name])
