"""The one-run audit of a SPEC.json: orthogonal canaries on its extremal quadratic, mislabelled ones on its instance."""

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack.chains import ChainFit
from sordino.audit.attack.constant_pull import constant_pull_model
from sordino.audit.attack.effort import need_feasible
from sordino.audit.attack.experiment import Claim
from sordino.audit.attack.fitting import Releases
from sordino.audit.attack.model_scores import record_losses
from sordino.audit.canary.records import mislabelled
from sordino.audit.instance import audit_instance
from sordino.audit.lower_bound import LowerBound
from sordino.audit.method import AuditOptions
from sordino.audit.one_run.audit import CoinScores, audit_in_one_run
from sordino.audit.one_run.guesses import Coins, usual_guesses
from sordino.audit.one_run.inclusion import Canaries
from sordino.core.certificate import Certificate
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.data.neighbours import Dataset, Record
from sordino.model.base import Model

_MOST_CANARIES = 1000


def audit_described_run_once(spec: Spec, options: AuditOptions) -> LowerBound:
    """Audit a noisy gradient spec with one run; the spec decides the relation the coins speak about."""
    need_feasible(spec, 1)
    return _orthogonal(spec, options) if spec.instance is None else _mislabelled(spec, options)


def _orthogonal(spec: Spec, options: AuditOptions) -> LowerBound:
    """One canary for each axis: what one of them does to the release says nothing about another."""
    number = min(spec.dim, spec.n)
    canaries = orthogonal_canaries(spec, number)
    return _audited(
        spec,
        constant_pull_model(spec),
        canaries,
        lambda release: release.reshape(-1, spec.dim).mean(axis=0)[:number],
        number,
        options,
        f"{number} canaries that pull along an axis each, on the extremal quadratic of the spec's constants",
    )


def orthogonal_canaries(spec: Spec, number: int) -> Canaries:
    """Canaries with gradients as long as the certified constants allow, each along an axis of its own."""
    replaced = spec.relation == Relation.REPLACE_ONE
    constant = "gradient_sensitivity" if replaced else "gradient_bound"
    certificate: Certificate | None = getattr(spec.problem, constant, None)
    if certificate is None:
        raise InputError(f"Expected problem.{constant} to be given for {spec.relation.value}, got none.")
    pull = certificate.value / 2 if replaced else certificate.value
    base = Dataset(np.zeros((spec.n - number, spec.dim)), np.zeros(spec.n - number))
    heads = tuple(Record(pull * axis, 0.0) for axis in np.eye(number, spec.dim))
    tails = tuple(Record(-pull * axis, 0.0) for axis in np.eye(number, spec.dim)) if replaced else None
    return Canaries(base, heads, tails)


def _mislabelled(spec: Spec, options: AuditOptions) -> LowerBound:
    """Half of the records, at most a thousand, become canaries with a wrong target."""
    instance = audit_instance(spec)
    data, model = instance.pair.first, instance.model
    number = min(len(data) // 2, _MOST_CANARIES)
    if number < 1:
        raise InputError(f"Expected at least two records for canaries in one run, got {len(data)}.")
    own, base = _cut(data, number)
    wrong = tuple(mislabelled(record, data.target) for record in own)
    canaries = Canaries(base, wrong, own if spec.relation == Relation.REPLACE_ONE else None)

    def scores(release: Releases) -> NDArray[np.float64]:
        fits = -record_losses(model, release, *canaries.heads)[0]
        return fits if canaries.otherwise is None else fits + record_losses(model, release, *canaries.otherwise)[0]

    evidence = f"{instance.description.split(',')[0]}, {number} canaries with a wrong target, guessed by their loss"
    return _audited(spec, model, canaries, scores, number, options, evidence)


def _cut(data: Dataset, number: int) -> tuple[tuple[Record, ...], Dataset]:
    rest = len(data) - number
    own = tuple(Record(np.asarray(data.features[i], float), data.target[i].item()) for i in range(rest, len(data)))
    return own, Dataset(data.features[:rest], data.target[:rest])


def _audited(
    spec: Spec,
    model: Model,
    canaries: Canaries,
    scores: CoinScores,
    number: int,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    fit = ChainFit(spec, model)

    def run_with(coins: Coins, seed: int) -> Releases:
        return fit(canaries.flipped(coins), np.array([seed], np.uint64))

    guesses = usual_guesses(number)
    return audit_in_one_run(run_with, scores, number, guesses, Claim(canaries.relation, spec.view), options, evidence)
