"""The accountant alone: describe a run in one line, and ask for its epsilon, its delta or the noise that it needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import Explanation, bounds_of, explain, why_none
from sordino.core import spec as specs
from sordino.core.bound import Bound, Relation, RelationWord, View
from sordino.core.guarantee import check_delta
from sordino.core.results import figure_axes
from sordino.core.spec import Batch, Clipping, Part, Participation, Problem, Scheme, Spec
from sordino.core.spec.matrices import Strategy
from sordino.core.spec.mechanisms import AnswerNoise, AnswerNoiseKind
from sordino.core.validate import NON_NEGATIVE, SHARE, InputError, instance_of, number, whole_number
from sordino.mechanisms.chain import specs as chains
from sordino.mechanisms.chain.specs import ChainOptions, Step


@dataclass(frozen=True)
class Run:
    """A described run, or several on the same data: its `spec`, as JSON text, is what `sordino certify` reads.

    >>> from sordino import accounting
    >>> run = accounting.gaussian(noise_multiplier=2.0, relation="add-remove")
    >>> round(run.epsilon(1e-5), 3), round(run.delta(1.0), 6)
    (1.993, 0.00683)
    """

    spec: Spec

    def explanation(self, delta: float) -> Explanation:
        """What every theorem says of the run at this delta."""
        delta = check_delta(delta)
        return explain(self.spec if self.spec.delta == delta else self.spec.with_values({"delta": delta}), delta)

    def bound(self, delta: float) -> Bound:
        """The tightest bound, with its theorem and citation; a run that no theorem covers is refused."""
        if (best := self.explanation(delta).tightest) is None:
            why = why_none(self.spec, "no theorem is about such runs")
            raise InputError(f"No theorem gives a finite epsilon for this run: {why}.")
        return best

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that a theorem proves at this delta."""
        return self.bound(delta).guarantee.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta that a theorem proves at this epsilon.

        Some theorems choose a window or a split for a stated delta: they are asked again at the first answer.
        """
        epsilon = number("epsilon", epsilon, NON_NEGATIVE)

        def smallest(spec: Spec) -> float:
            return min((bound.guarantee.delta(epsilon) for bound in bounds_of(spec)), default=1.0)

        first = smallest(self.spec)
        return min(first, smallest(self.spec.with_values({"delta": first}))) if 0.0 < first < 1.0 else first

    def compose(self, *others: "Run", times: int = 1) -> "Run":
        """This run and others on the same data, all of them `times` times; each may depend on what came before."""
        runs = (self, *(instance_of("a run", other, Run) for other in others))
        if len({run.spec.relation for run in runs}) > 1:
            raise InputError(
                "These runs have different relations. A guarantee under one relation says nothing about the other."
            )
        each = [one for run in runs for one in run.spec.runs()]
        parts = tuple(Part(one.algorithm, one.problem, one.average, one.view) for one in each)
        composite = specs.Composite(parts * whole_number("times", times))
        return Run(Spec(algorithm=composite, relation=self.spec.relation, view=self.spec.view))

    def calibrate(self, *, epsilon: float, delta: float, over: str = "noise") -> "Run":
        """The run with the least noise that meets (epsilon, delta), or the most steps or smallest batch."""
        return Run(calibrate(self.spec, epsilon, delta, over).spec)

    def plot(self, deltas: Sequence[float] = (1e-8, 1e-6, 1e-5, 1e-4), ax: Any = None) -> Any:
        """Epsilon against delta with Matplotlib; returns the axes."""
        ax = figure_axes(ax)
        ax.plot(deltas, [self.epsilon(delta) for delta in deltas], marker="o")
        ax.set(xscale="log", xlabel="delta", ylabel="epsilon", title=self.spec.algorithm.words)
        return ax

    def __str__(self) -> str:
        spec = self.spec
        words = f"{spec.algorithm.words}; {spec.relation.value}, {spec.view.value}"
        if spec.delta is not None:
            words += f"; epsilon {self.epsilon(spec.delta):.4g} at delta {spec.delta:g}"
        return words


def _seen(algorithm: specs.Algorithm, relation: RelationWord) -> Run:
    return Run(Spec(algorithm=algorithm, relation=Relation(relation), view=View.ALL_ITERATES))


def _answer(noise: AnswerNoise, relation: RelationWord, times: int, rate: float | None) -> Run:
    named = {"query": "an answer", "sensitivity": 1.0}
    return _seen(specs.NoisedAnswer(**named, noise=noise, rate=rate, repetitions=times), relation)


def gaussian(
    *, noise_multiplier: float, relation: RelationWord, times: int = 1, sampling_rate: float | None = None
) -> Run:
    """Gaussian noise on an answer: `noise_multiplier` is its deviation over how far one unit moves the answer in l2.

    There are `times` answers under the `relation`, each chosen in view of the earlier ones. With a `sampling_rate` each
    unit takes part by a secret coin of this chance, drawn afresh for every answer.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> round(accounting.gaussian(noise_multiplier=2.0, relation="add-remove").epsilon(1e-5), 3)
    1.993
    """
    return _answer(AnswerNoise(AnswerNoiseKind.GAUSSIAN, noise_multiplier), relation, times, sampling_rate)


def laplace(*, scale: float, relation: RelationWord, times: int = 1, sampling_rate: float | None = None) -> Run:
    """Laplace noise on an answer: `scale` is in units of how far one unit moves the answer in l1.

    `relation`, `times` and `sampling_rate` are those of `gaussian`.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> round(accounting.laplace(scale=2.0, relation="add-remove", times=10).epsilon(1e-5), 3)
    4.99
    """
    return _answer(AnswerNoise(AnswerNoiseKind.LAPLACE, scale), relation, times, sampling_rate)


def dp_sgd(
    *,
    noise_multiplier: float,
    steps: int,
    relation: RelationWord,
    sampling_rate: float | None = None,
    records: int | None = None,
    batch_size: int | None = None,
    scheme: str = "poisson",
) -> Run:
    """Noised sums of clipped gradients, `steps` of them, all seen: DP-SGD with any optimiser.

    `noise_multiplier` is the deviation of the noise on a sum over the clip; under the `relation` replace-one a record
    moves a sum by twice the clip. Batches of the `scheme` "poisson" need a `sampling_rate`, the chance of a record to
    be in one; those of "truncated-poisson", "without-replacement", "with-replacement", "reshuffled",
    "random-allocation", "cyclic" and "full" the number of `records` and of those of a batch, `batch_size`.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> run = accounting.dp_sgd(noise_multiplier=1.1, sampling_rate=0.01, steps=1000, relation="add-remove")
    >>> round(run.calibrate(epsilon=1.0, delta=1e-5).epsilon(1e-5), 2)
    1.0
    """
    if (sampling_rate is None) == (batch_size is None and scheme != Scheme.FULL):
        raise InputError("Give sampling_rate, or records and batch_size: exactly one of the two.")
    if sampling_rate is not None and scheme != Scheme.POISSON:
        raise InputError(f"{scheme} batches need records and batch_size, not sampling_rate.")
    if sampling_rate is None:
        batch = Batch(Scheme(scheme), size=batch_size)
    else:
        rate = number("sampling_rate", sampling_rate, SHARE)
        # No theorem on Poisson batches reads the number of records; a spec states one in which such a batch fits.
        records = math.ceil(1 / rate) if records is None else records
        batch = Batch(Scheme(scheme), size=max(1, round(rate * records)), rate=rate)
    sizes = {"records": whole_number("records", records), "rounds": steps, "sampling": batch, "contribution": 1.0}
    noise = specs.ConstantSchedule(noise_multiplier)
    return _seen(specs.NoisedSums(query="clipped gradients", **sizes, noise_multiplier=noise), relation)


def matrix(
    *, noise_multiplier: float, steps: int, strategy: Strategy, participation: Participation, relation: RelationWord
) -> Run:
    """Correlated noise (DP-FTRL, DP-MF): each step's sum is clipped at 1 and multiplied by a matrix, the `strategy`.

    `noise_multiplier` is the deviation of the independent noise over the clip, `steps` the number of sums;
    `participation` says in which of them a unit may take part, `relation` what neighbours are.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> from sordino.core.spec import Participation
    >>> from sordino.core.spec.matrices import TreeStrategy
    >>> words = {"strategy": TreeStrategy(), "participation": Participation("single"), "relation": "add-remove"}
    >>> round(accounting.matrix(noise_multiplier=4.0, steps=16, **words).epsilon(1e-5), 3)
    2.258
    """
    words = {"strategy": strategy, "contribution": 1.0, "participation": participation}
    return _seen(specs.MatrixMechanism(steps=steps, noise_multiplier=noise_multiplier, **words), relation)


def noisy_gd(problem: Problem, *, step_size: Step, noise_scale: float, **options: Unpack[ChainOptions]) -> Run:
    """Full-batch noisy gradient descent; with view "last-iterate" hidden steps cost less.

    `problem` states the number of records, the dimension and certified constants of the loss, `step_size` a number or
    a schedule, `noise_scale` the deviation of the noise of a step, and `options` steps, relation and view; also
    projection, start, chains, keep and delta of a spec.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> from sordino.core.spec import Problem
    >>> problem = Problem(n=1000, dim=5, gradient_sensitivity=2.0)
    >>> run = {"steps": 50, "relation": "replace-one", "view": "all-iterates", "step_size": 0.5, "noise_scale": 0.1}
    >>> round(accounting.noisy_gd(problem, **run).epsilon(1e-5), 3)
    0.234
    """
    return Run(chains.noisy_gd(problem, step_size=step_size, noise_scale=noise_scale, **options))


def langevin(
    problem: Problem, *, step: Step, batch: Batch, clipping: Clipping | None = None, **options: Unpack[ChainOptions]
) -> Run:
    """Stochastic gradient Langevin dynamics with the step of Welling and Teh (2011): noise of variance `step`.

    `problem` and `options` are those of `noisy_gd`, `batch` says how batches are drawn, and `clipping` how gradients
    of single records are clipped.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> from sordino.core.spec import Batch, Problem
    >>> run = {"steps": 50, "relation": "add-remove", "view": "all-iterates", "batch": Batch("poisson", 50)}
    >>> round(accounting.langevin(Problem(n=1000, dim=5, gradient_bound=1.0), step=1e-4, **run).epsilon(1e-5), 3)
    0.112
    """
    return Run(chains.sgld(problem, step=step, batch=batch, clipping=clipping, **options))


def heavy_tailed(
    problem: Problem,
    *,
    step_size: Step,
    batch: Batch,
    alpha: float,
    sigma: float,
    clipping: Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> Run:
    """Noisy SGD with rotation-invariant stable noise of tail index `alpha`, in (1, 2], and scale `sigma`.

    `problem`, `step_size` and `options` are those of `noisy_gd`, `batch` and `clipping` those of `langevin`.

    Returns: a `Run`. Raises: `InputError`.

    >>> from sordino import accounting
    >>> from sordino.core.spec import Batch, Clipping, Problem
    >>> run = {"steps": 100, "relation": "replace-one", "view": "last-iterate", "clipping": Clipping("norm", 1.0)}
    >>> run |= {"alpha": 1.7, "sigma": 0.05, "step_size": 0.5, "batch": Batch("full")}
    >>> round(accounting.heavy_tailed(Problem(n=1000, dim=5), **run).epsilon(1e-5), 3)
    0.522
    """
    law = {"alpha": alpha, "sigma": sigma}
    return Run(chains.heavy_tailed_sgd(problem, step_size=step_size, batch=batch, clipping=clipping, **law, **options))
