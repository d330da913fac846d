"""The audit in one run: many canaries, a fair coin for each, one model, and as many guesses as are right."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack.experiment import Claim
from sordino.audit.lower_bound import Examined, LowerBound
from sordino.audit.method import AuditOptions
from sordino.audit.one_run.guesses import Coins, fair_coins, right_guesses
from sordino.audit.one_run.theorem import cap, epsilon_from_guesses
from sordino.core.errors import InputError

RunWithCoins = Callable[[Coins, int], Any]
CoinScores = Callable[[Any], NDArray[np.floating]]


def audit_in_one_run(
    run_with: RunWithCoins,
    scores: CoinScores,
    coins: int,
    guesses: int,
    claim: Claim,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """Lower bound on epsilon from one run in which `coins` records were each decided by a fair coin.

    `run_with(coins, seed)` runs the mechanism once: under add-remove a coin says whether its record is there, under
    replace-one which of two records it is. That is the relation the bound speaks about. `scores(release)` gives one
    number for each coin, larger for heads, without knowing the coins. `guesses` is fixed before the run.
    """
    generator = np.random.default_rng(np.random.SeedSequence(options.seed))
    flipped = fair_coins(coins, generator)
    release = run_with(flipped.copy(), int(generator.integers(0, 2**63)))
    found = np.asarray(scores(release), float)
    if found.shape != (coins,):
        raise InputError(f"Expected one score for each of {coins} coins, got shape {found.shape}.")
    right = right_guesses(found, flipped, guesses)
    return bound_from_guesses(coins, guesses, right, claim, options, evidence)


def bound_from_guesses(
    coins: int, guesses: int, right: int, claim: Claim, options: AuditOptions, evidence: str
) -> LowerBound:
    """The lower bound of one run in which `right` of `guesses` guesses about `coins` coins were right."""
    fresh = "drawn afresh from the operating system" if options.seed is None else f"drawn from the seed {options.seed}"
    return LowerBound(
        epsilon=epsilon_from_guesses(coins, guesses, right, options.delta, options.confidence),
        delta=options.delta,
        relation=claim.relation,
        view=claim.view,
        method="one-run",
        confidence=options.confidence,
        counts=(("models", 1), ("coins", coins), ("guesses", guesses), ("right guesses", right)),
        cap=cap(coins, guesses, options.delta, options.confidence),
        examined=Examined.RUN,
        seed_policy=f"Coins and run are {fresh} of the audit.",
        evidence=evidence,
    )
