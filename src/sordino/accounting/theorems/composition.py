"""Composition over steps and rounds: each one that may use the record is a mechanism, and mechanisms compose.

Gaussian for full, fixed and reshuffled batches, loss distributions for sampled ones, Rényi curves for all of them.
"""

import math
from functools import partial

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds.hidden_steps import poisson_step, shuffled_pass, unit_step
from sordino.accounting.bounds.renyi import poisson_renyi, without_replacement_renyi
from sordino.accounting.convert import repeat, to_renyi
from sordino.accounting.evaluate import as_stated, corrected, ours
from sordino.core.bound import Citation, Relation, View
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution
from sordino.core.loss.normal_pairs import GaussianPair, WithoutReplacementPair
from sordino.core.spec import Scheme, Spec

_FIXED = frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})
_steps_on = partial(assume.Scope, assume.STEP_KINDS, assume.STEP_VIEWS)


@as_stated(
    "composition.gaussian",
    Citation("dong2022gaussian", "Theorem 2.7 and Corollary 3.3"),
    scope=_steps_on({Relation.REPLACE_ONE: _FIXED, Relation.ADD_REMOVE: {Scheme.FULL}}),
    assumptions=chains.ANY_STEPS,
)
def gaussian(spec: Spec) -> Guarantee:
    """With full or fixed (cyclic, shuffle-once) batches the iterates are mu-Gaussian DP with mu^2 = sum of kappa_k^2
    over the steps whose batch holds the record, kappa_k = eta_k Delta / (b tau_k); the worst position of the record
    counts."""
    # Gaussian mechanisms compose to one; the position that is used most decides.
    steps = chains.required_steps(spec)
    if steps.constant_ratio is not None:
        return repeat(GaussianDP(steps.constant_ratio), steps.epochs)
    worst = assume.largest_position(steps.ratios() ** 2, steps.batches_per_epoch)
    return GaussianDP(up(math.sqrt(worst * (1 + 2e-14)), 2))


@corrected(
    "composition.parallel-epochs",
    Citation("dong2022gaussian", "Corollary 3.3, applied given the permutations"),
    scope=_steps_on({Relation.REPLACE_ONE: {Scheme.RESHUFFLED}}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL),
)
def parallel_epochs(spec: Spec) -> Guarantee:
    """With batches reshuffled every epoch a record is used at most once an epoch, so K epochs are mu-Gaussian DP with
    mu^2 = sum over epochs of the largest kappa_k^2 in the epoch (K kappa^2 for constant schedules)."""
    # Given the permutations each epoch is one Gaussian mechanism for the record, at its worst position.
    return chains.one_use_in(spec, chains.required_steps(spec).batches_per_epoch)


_SHARES = (1.0, 0.3)  # of a pass's part of delta, for which it is chosen
_NEGLIGIBLE_EPSILON = 5e-3  # where composition already gives this little, there is nothing to hide


@assume.assumption("new orders", "an order that is drawn once is used for one pass")
def _new_orders(spec: Spec) -> str | None:
    steps = chains.required_steps(spec)
    if steps.scheme is not Scheme.SHUFFLE_ONCE or steps.steps <= steps.batches_per_epoch:
        return None
    again = f"{steps.steps} steps pass over {steps.batches_per_epoch} batches again"
    return f"is about one pass where the order is drawn once, and {again}"


def _clones_of(spec: Spec) -> list[LossDistribution]:
    steps, (batch, records) = chains.required_steps(spec), assume.batches_of(spec)
    passes, delta = steps.epochs, assume.chosen_delta(spec)
    whole = records // batch.divisor(records)
    pairs = (shuffled_pass(whole, steps.largest_ratio, share * delta / passes) for share in _SHARES)
    return [LossDistribution(((pair, passes),)) for pair in pairs if pair is not None]


@assume.assumption("hidden records", "for some epsilon_0 others look like the record")
def _hidden_records(spec: Spec) -> str | None:
    steps = chains.required_steps(spec)
    plain = repeat(GaussianDP(steps.largest_ratio), steps.epochs).epsilon(assume.chosen_delta(spec))
    if plain <= _NEGLIGIBLE_EPSILON:
        return f"is of use where a use an epoch costs more than {_NEGLIGIBLE_EPSILON:g}, and it costs {plain:.3g}"
    if _clones_of(spec):
        return None
    return (
        "gains nothing from the random order: too few batches for steps that move so many noises (the kappa of "
        "composition.parallel-epochs), or too small a delta"
    )


@ours(
    "composition.clones",
    Citation("feldman2021hiding", "Theorem 3.2, with labels of Gaussian steps by their loss, and batches"),
    scope=_steps_on({Relation.REPLACE_ONE: {Scheme.RESHUFFLED, Scheme.SHUFFLE_ONCE}}),
    assumptions=(
        chains.SENSITIVITY,
        *chains.NUMERICAL,
        _new_orders,
        _hidden_records,
        assume.caller_checked(
            "any two records there are",
            "the declared gradient_sensitivity bounds the difference between the gradients of any two records there "
            "may be, not only of a record and its replacement: the others hide the record only if they are as near to "
            "it",
        ),
    ),
)
def clones(spec: Spec) -> Guarantee:
    """In a pass over n records in random order, b a step, with Gaussian noise and ratio kappa between any two records,
    delta(epsilon) is at most E_C E (1 - e^epsilon + (1 + e^epsilon) S)+ + (1 + e^epsilon) t for every epsilon_0: C ~
    Bin(l - 1, e^-epsilon_0), l = floor(n / b), others look like the record, S is the mean of C + 1 copies of tanh(L /
    2), L the log ratio of a kappa-Gaussian under an even mixture of both laws, and t = l e^-epsilon_0
    delta_kappa(epsilon_0). Passes in new orders compose; an order drawn once gives one pass."""
    # See `bounds.hidden_steps` for the proof; of the two numbers of clones tried the better one is used.
    return min(_clones_of(spec), key=lambda one: one.epsilon(assume.chosen_delta(spec)))


def _poisson_unit(spec: Spec, size: int) -> Guarantee:
    """Steps that a unit of so many records joins or leaves; the proof is in `bounds.hidden_steps`."""
    return chains.stepwise(spec, partial(unit_step, chains.required_steps(spec).rate, size=size))


@as_stated(
    "composition.subsampled-poisson",
    Citation("zhu2022optimal", "Theorem 10 and Theorem 11"),
    scope=_steps_on(dict.fromkeys(Relation, frozenset({Scheme.POISSON}))),
    assumptions=(chains.BOUND, *chains.NUMERICAL),
    grouped=_poisson_unit,
)
def subsampled_poisson(spec: Spec) -> Guarantee:
    """Each step of a Poisson-sampled run with rate q is dominated, under add-remove, by ((1-q) N(0,1) + q N(kappa,1),
    N(0,1)) and its reverse, kappa = eta G / (b tau); under replace-one by the pair with N(kappa,1) and N(-kappa,1) in
    the two mixtures. The steps compose as loss distributions."""
    return chains.stepwise(spec, partial(poisson_step, spec.relation, chains.required_steps(spec).rate))


@as_stated(
    "composition.subsampled-without-replacement",
    Citation("zhu2022optimal", "Theorem 10 and Proposition 30"),
    scope=_steps_on({Relation.REPLACE_ONE: {Scheme.WITHOUT_REPLACEMENT}}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.ANY_TWO_RECORDS),
)
def subsampled_without_replacement(spec: Spec) -> Guarantee:
    """A step on b of n records drawn without replacement is dominated under replace-one by the symmetrised subsampled
    pair C_q of a kappa-Gaussian, q = b/n, kappa = eta Delta / (b tau). The steps compose as loss distributions."""
    # Steps with the same ratio are counted, not listed; a batch of all records is not sampled at all.
    rate = chains.required_steps(spec).rate
    return chains.stepwise(spec, GaussianPair if rate >= 1.0 else partial(WithoutReplacementPair, rate))


_SAMPLED = frozenset({Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT})
_UNSAMPLED = dict.fromkeys(_FIXED, gaussian) | {Scheme.RESHUFFLED: parallel_epochs}


@as_stated(
    "composition.renyi",
    Citation("mironov2017renyi", "Proposition 1, with Mironov, Talwar & Zhang 2019, Section 3"),
    scope=_steps_on(
        {Relation.REPLACE_ONE: {*_UNSAMPLED, *_SAMPLED}, Relation.ADD_REMOVE: {Scheme.FULL, Scheme.POISSON}}
    ),
    assumptions=(*chains.ANY_STEPS, chains.ANY_TWO_RECORDS),
)
def renyi(spec: Spec) -> Guarantee:
    """Rényi divergences of the steps add, order by order. Gaussian steps: order kappa^2 / 2. Poisson-sampled steps: the
    exact divergence of the sampled Gaussian. Without replacement: the bound of Wang, Balle & Kasiviswanathan."""
    steps = chains.required_steps(spec)
    if steps.scheme in _UNSAMPLED:
        return to_renyi(_UNSAMPLED[steps.scheme].proof(spec))
    poisson = steps.scheme is Scheme.POISSON
    one_step = partial(poisson_renyi, relation=spec.relation) if poisson else without_replacement_renyi
    return chains.stepwise_renyi(spec, partial(one_step, rate=steps.rate))


# Rounds of noised sums: a round releases a sum of contributions, bounded by C, plus noise of m C. Sigma is the noise
# over how far one unit moves the sum: m / 2 under replace-one (m / sqrt 2 where contributions are rank-one matrices), m
# under add-remove. The guarantees are those of every round's noised sum, hence of anything computed from them (steps of
# any size, damping, repairs, momentum, predictions): what multiplies a noised sum does not enter, because sum and noise
# share it. Vinaroz & Park run passes and account for independent draws; that is not valid.

_rounds_on = partial(assume.Scope, {"noised-sums"}, {View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})
_ASSUMPTIONS = (
    *chains.NUMERICAL,
    assume.caller_checked(
        "bounded contributions",
        "each unit's contribution to a round is a function of the unit's records and of released values, is bounded as "
        "a whole (unknown precisions included), and whatever multiplies the sum multiplies its noise too",
    ),
    assume.caller_checked(
        "public scaling", "features and targets are scaled by declared bounds, not by values computed from the records"
    ),
)


@corrected(
    "noised-sums.passes",
    Citation("vinaroz2022differentially", "Algorithm 3 and Proposition 1, accounted by parallel epochs"),
    scope=_rounds_on({Relation.REPLACE_ONE: {Scheme.RESHUFFLED}}),
    assumptions=_ASSUMPTIONS,
)
def passes(spec: Spec) -> Guarantee:
    """Passes in permuted order use each record once an epoch, so K epochs of noised sums are mu-Gaussian DP with mu^2 =
    K / sigma^2, sigma the noise over the sum's sensitivity; no amplification by sampling holds."""
    return parallel_epochs.proof(spec)


@ours(
    "noised-sums.rounds",
    Citation("dong2022gaussian", "Corollary 3.3, with the sensitivity of Vinaroz & Park 2022, Proposition 1"),
    scope=_rounds_on(dict.fromkeys(Relation, frozenset({Scheme.FULL}))),
    assumptions=_ASSUMPTIONS,
)
def rounds(spec: Spec) -> Guarantee:
    """T full-batch rounds, each a sum of contributions of length at most C plus noise of m C, are mu-Gaussian DP with
    mu^2 = sum of 1 / sigma_t^2, sigma = m / 2 under replace-one (m / sqrt 2 for rank-one contributions, m C / R where a
    replacement is proved to move the sum by at most R) and m under add-remove, whatever is done with the sums."""
    return gaussian.proof(spec)


@corrected(
    "noised-sums.subsampled",
    Citation("zhu2022optimal", "Theorems 10 and 11, with Vinaroz & Park 2022, Proposition 1"),
    scope=_rounds_on(assume.DRAWN),
    assumptions=_ASSUMPTIONS,
    grouped=_poisson_unit,
)
def subsampled(spec: Spec) -> Guarantee:
    """Rounds of noised sums on batches drawn independently, uniform of fixed size or Poisson, compose as subsampled
    Gaussian steps with ratio 1/sigma, sigma the noise over the sum's sensitivity (for Poisson batches over the
    contribution bound), whatever is done with the sums."""
    drawn = assume.scheme_of(spec.algorithm) is Scheme.POISSON
    return (subsampled_poisson if drawn else subsampled_without_replacement).proof(spec)
