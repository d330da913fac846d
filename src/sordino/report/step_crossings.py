"""From which step on a bound that forgets is smaller than composition, by bisection over the number of steps.

A bound through the drift's size does not shrink with the number of records, and stays put as the run goes on;
composition starts far below it and grows without end. Where they cross may lie far beyond the run, and says how far.
"""

from sordino.accounting.evaluate import evaluate
from sordino.accounting.noisy_steps import scheme_of
from sordino.accounting.registry import Theorem, theorems
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.view import View
from sordino.report.steps_curves import Crossing, at_steps

# Bounds through the size of the drift, with closed forms for any number of steps.
_FORGETFUL = ("shifted.drift-bounded", "langevin.last-iterate", "langevin.last-iterate-window")
# No run is longer than this; a crossing beyond it is none.
_LONGEST = 10**15
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
# Both sides are rounded up by parts in 10^14; a smaller difference is none.
_TIE = 1e-9


def says_something(tightest: str) -> bool:
    """Whether the crossings matter to a run: not where a theorem that needs more, and says more, is the tightest."""
    return tightest.startswith(("composition.", "langevin.", "shifted.drift-bounded"))


def forgetful_crossings(spec: Spec) -> tuple[Crossing, ...]:
    """The first step from which on each bound through the drift is below composition, earliest first.

    For runs of constant schedules of which the last iterate is seen, where both are Gaussian; others have no entry, and
    neither has a pair that never crosses. Gaussian guarantees are compared by their mu, so no delta plays a part.
    """
    chain = spec.algorithm
    if not isinstance(chain, NoisyGradient) or spec.view is not View.LAST_ITERATE:
        return ()
    if not (chain.step_size.is_constant and chain.noise.scale.is_constant):
        return ()
    asked = [theorem for theorem in theorems() if theorem.failure(spec) is None]
    composed = [theorem for theorem in asked if theorem.id.startswith("composition.") and _mu(theorem, spec)]
    if not composed:
        return ()
    before = min(composed, key=lambda theorem: _mu(theorem, spec) or 0.0)
    epoch = chain.batches_per_epoch(spec.n) if scheme_of(chain) in _PASSES else 1
    found = [
        Crossing(step, before.id, after.id)
        for after in asked
        if after.id in _FORGETFUL and (step := _first_step(spec, epoch, before, after)) is not None
    ]
    return tuple(sorted(found, key=lambda crossing: (crossing.steps, crossing.after)))


def crossing_line(crossing: Crossing, spec: Spec) -> str:
    """The crossing in a sentence; one beyond the run says how long the run is."""
    line = f"from step {crossing.steps} on, {crossing.after} is smaller than {crossing.before}"
    steps = spec.algorithm.steps if isinstance(spec.algorithm, NoisyGradient) else crossing.steps
    return line if crossing.steps <= steps else f"{line} (this run has {steps} steps)"


def _mu(theorem: Theorem, spec: Spec) -> float | None:
    """The mu of a Gaussian answer, or None."""
    answer = evaluate(theorem, spec)
    return answer.guarantee.mu if isinstance(answer, Bound) and isinstance(answer.guarantee, GaussianDP) else None


def _first_step(spec: Spec, epoch: int, before: Theorem, after: Theorem) -> int | None:
    """The first step of the first epoch throughout which `after` is below `before`, and in all later ones.

    Within an epoch composition stays and the other grows, so its last step decides; from epoch to epoch the ratio of
    the two falls.
    """

    def beaten(epochs: int) -> bool:
        run = at_steps(spec, epochs * epoch)
        pair = _mu(after, run), _mu(before, run)
        return pair[0] is not None and pair[1] is not None and pair[0] < pair[1] * (1 - _TIE)

    high = 1
    while not beaten(high):
        high *= 4
        if high * epoch > _LONGEST:
            return None
    low = high // 4
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if beaten(middle) else (middle, high)
    return (high - 1) * epoch + 1
