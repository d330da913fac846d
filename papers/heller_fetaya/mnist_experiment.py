"""The MNIST experiment as it is run: trials of the canary, a fleet for as long as there is time, and what is certified.

What rounds of trial and epochs showed is kept in small files, so that a run that is stopped loses nothing.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray

from papers.framework.benchmark import load_benchmark
from papers.framework.item import Options
from papers.framework.records import Record, keep, recorded_on
from papers.heller_fetaya import mnist_setting
from papers.heller_fetaya.attack import cap
from papers.heller_fetaya.mnist_setting import Recorded, distinct, load_recorded
from papers.heller_fetaya.network_audit import (
    EpochFinding,
    NeuralFindings,
    Piloted,
    attack_canary,
    canary_against_ensemble,
    described_chain,
)
from papers.heller_fetaya.network_canary import Canary, NeuralData, NeuralSetting
from sordino.accounting.evaluate import tightest
from sordino.auditing.confidence import epsilon_lower
from sordino.auditing.lower_bound import VerdictKind, verdict
from sordino.core.bound import Bound
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.models.base import Model


@dataclass(frozen=True)
class Tried:
    """A candidate of one round: record, label, multiple of DeepFool's push, and separation after every epoch."""

    row: int
    label: int
    length: float
    score: float
    separations: tuple[float, ...]


def save_pilot(folder: Path, name: str, rounds: Sequence[Sequence[Piloted]]) -> None:
    """Write all rounds so far, best candidate of each first."""
    rows = [
        [
            {
                "row": each.canary.row,
                "label": each.canary.label,
                "length": round(each.canary.length, 3),
                "score": round(each.score, 3),
                "separations": [round(float(value), 3) for value in each.separations],
            }
            for each in found
        ]
        for found in rounds
    ]
    (folder / f"{name}-pilot.json").write_text(json.dumps(rows) + "\n")


def load_pilot(folder: Path, name: str) -> tuple[tuple[Tried, ...], ...]:
    """The rounds of a recorded run; none where its canary was not chosen by trial."""
    path = folder / f"{name}-pilot.json"
    if not path.is_file():
        return ()
    return tuple(
        tuple(Tried(**{**each, "separations": tuple(each["separations"])}) for each in found)
        for found in json.loads(path.read_text())
    )


# Candidates of each round that are reported.
_SHOWN = 4


def run_variant(
    name: str,
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    folder: Path,
    seconds: float,
    say: Callable[[str], None],
    otherwise: Canary | None = None,
) -> Canary:
    """Make the canary, train both fleets, and write `name`.npz into the folder after each epoch; answer the canary.

    `otherwise` is a canary to use where this chain's ensemble agrees on too little to make one. What rounds of trial
    find goes to `name`-pilot.json.

    The run ends when its epochs are done or when another epoch would take it past `seconds`, and never because of what
    it found: joint bounds count the epochs, so their number must not depend on the models.
    """
    begin = time.monotonic()
    rounds: list[tuple[Piloted, ...]] = []

    def each_round(found: tuple[Piloted, ...]) -> None:
        rounds.append(found)
        save_pilot(folder, name, rounds)
        for each in found[:_SHOWN]:
            candidate = (
                f"record {each.canary.row}, {each.canary.length:.1f} times the push, separation {each.score:.2f}"
            )
            say(f"{name}: round {len(rounds)}, {candidate}, {time.monotonic() - begin:.1f} s")

    try:
        canary = canary_against_ensemble(model, data, setting, each_round=each_round)
    except InputError:
        if otherwise is None:
            raise
        canary = otherwise
    say(
        f"{name}: canary of record {canary.row}, label {canary.label}, {canary.length:.1f} times DeepFool's push, "
        f"pull {canary.pull:.3g}, {time.monotonic() - begin:.1f} s"
    )
    epochs_seen: list[tuple[NDArray[np.float32], NDArray[np.float32], float]] = []
    claimed = setting.claimed.delta, setting.claimed.confidence

    def each_epoch(finding: EpochFinding, readings: Mapping[str, NDArray[np.float32]]) -> bool:
        now = time.monotonic() - begin
        epochs_seen.append((distinct(readings), readings["accuracy"], now))
        columns = (np.stack(column) for column in zip(*epochs_seen, strict=True))
        Recorded(name, setting.plan.seed, canary, *columns).save(folder)
        counts = finding.counts("probabilities")
        epsilon = epsilon_lower(counts, *claimed)
        most = cap(counts.first_models, counts.second_models, *claimed)
        say(
            f"{name}: epoch {finding.epoch}, errors {counts.false_positives} and {counts.false_negatives} of "
            f"{counts.first_models} each, epsilon at least {epsilon:.3f} (cap {most:.3f}), "
            f"accuracy {finding.accuracy:.4f}, {now:.1f} s"
        )
        last = now - epochs_seen[-2][2] if len(epochs_seen) > 1 else 0.0
        return now + 1.2 * last < seconds

    attack_canary(model, data, setting, canary, each_epoch=each_epoch)
    return canary


RECORDED = Path(__file__).with_name("recorded")
RECORDED_SEED = 1


@dataclass(frozen=True, eq=False)
class Experiment:
    """A variant's findings by epoch; `certified` has a bound for every epoch of a chain that is clipped."""

    variant: mnist_setting.Variant
    canary: Canary
    findings: NeuralFindings
    certified: tuple[Bound, ...]
    where: str
    pilot: tuple[tuple[Tried, ...], ...] = ()
    # The paper's upper curve for every epoch of a chain that is clipped, by its own accounting.
    stated: tuple[float, ...] = ()

    def verdicts(self) -> tuple[VerdictKind, ...]:
        """Every epoch's bounds, the paper's attack first, against the certificate."""
        return tuple(
            verdict(bound, self.findings.lower_bound(epoch.epoch, attack, joint=False)).kind
            for attack in self.findings.attacks
            for epoch, bound in zip(self.findings.epochs, self.certified, strict=True)
        )


def experiments(options: Options) -> dict[str, Experiment]:
    """Every variant by its name: small ones at once, in full as recorded."""
    return {each.variant.name: each for each in _experiments(options)}


def _experiments(options: Options) -> tuple[Experiment, ...]:
    if options.quick:
        return _small(options.seed)
    return tuple(
        _recorded(variant, RECORDED, f"recorded on one {recorded_on(_record_name(variant))}")
        for variant in mnist_setting.VARIANTS
    )


def _small(seed: int) -> tuple[Experiment, ...]:
    data, settings = (
        mnist_setting.generated_data(seed),
        [mnist_setting.small_setting(norm, seed) for norm in (None, mnist_setting.CLIP_NORM)],
    )
    canary = canary_against_ensemble(mnist_setting.MODEL, data, settings[0])
    made: list[Experiment] = []
    for variant, setting in zip((mnist_setting.PLAIN, mnist_setting.CLIPPED), settings, strict=True):
        findings = attack_canary(mnist_setting.MODEL, data, setting, canary)
        specs = [
            described_chain(
                mnist_setting.MODEL, mnist_setting.SMALL_DOMAIN, setting.plan, mnist_setting.SMALL_RECORDS, each.epoch
            )
            for each in findings.epochs
        ]
        stated = _stated(variant, setting, findings, mnist_setting.SMALL_RECORDS)
        made.append(Experiment(variant, canary, findings, _certified(variant, specs), "run here, small", stated=stated))
    return tuple(made)


def read_through(folder: Path) -> tuple[tuple[str, float], ...]:
    """What a quick run checks of the full one: MNIST's file read and scaled, LeNet-5 on it, a recorded run attacked."""
    data = mnist_setting.mnist_data(load_benchmark("mnist", folder))
    model = mnist_setting.CLIPPED.model
    theta = 0.05 * jax.random.normal(jax.random.key(0), (model.dim(data.features.shape[1]),))
    loss = float(jax.jit(model.loss)(theta, data.features[0], data.target[0]))
    lengths = np.linalg.norm(data.features, axis=1) / data.domain.row_norm.value
    variant = mnist_setting.CLIPPED
    recorded = load_recorded(RECORDED, variant)
    few = replace(recorded, probabilities=recorded.probabilities[:2], accuracy=recorded.accuracy[:2])
    bounds = few.findings(variant).bounds("probabilities", joint=False)
    return (
        ("records read from a file with MNIST's shapes", float(len(data.features))),
        ("longest row over the public bound", round(float(lengths.max()), 3)),
        ("loss of LeNet-5 on the first of them at a random start", round(loss, 3)),
        ("recorded epochs of the clipped chain, attacked again", float(len(bounds))),
        ("largest bound among them", max(bound.epsilon for bound in bounds)),
    )


def record_variant(variant: mnist_setting.Variant, data_dir: Path | None, folder: Path) -> None:
    """Run a variant in full, as it was recorded, for all of its epochs; three to six minutes on one H200."""
    if data_dir is None:
        return
    data = mnist_setting.mnist_data(load_benchmark("mnist", data_dir))
    with jax.default_matmul_precision("highest"):  # readings in single precision throughout
        setting = variant.setting(RECORDED_SEED)
        run_variant(variant.name, variant.model, data, setting, folder, math.inf, lambda _: None)


def _record_name(variant: mnist_setting.Variant) -> str:
    return f"heller_fetaya/recorded/{variant.name}.npz"


for _variant in mnist_setting.VARIANTS:
    keep(
        Record(
            _record_name(_variant),
            ("heller-fetaya-mnist",),
            partial(record_variant, _variant),
            (f"{_variant.name}-pilot.json",) if _variant.choice.pilot else (),
            reads=("mnist.npz",),
            gpu=True,
        )
    )


def _recorded(variant: mnist_setting.Variant, folder: Path, where: str) -> Experiment:
    recorded = load_recorded(folder, variant)
    findings = recorded.findings(variant)
    plan = variant.setting(recorded.seed).plan
    specs = [
        described_chain(variant.model, mnist_setting.DOMAIN, plan, mnist_setting.RECORDS, each.epoch)
        for each in findings.epochs
    ]
    pilot = load_pilot(folder, variant.name)
    stated = _stated(variant, variant.setting(recorded.seed), findings, mnist_setting.RECORDS)
    return Experiment(variant, recorded.canary, findings, _certified(variant, specs), where, pilot, stated)


def _stated(
    variant: mnist_setting.Variant, setting: NeuralSetting, findings: NeuralFindings, records: int
) -> tuple[float, ...]:
    if variant.clip_norm is None:
        return ()
    return tuple(mnist_setting.papers_accounting(setting.plan, records, each.epoch) for each in findings.epochs)


def _certified(variant: mnist_setting.Variant, specs: list[Spec]) -> tuple[Bound, ...]:
    """The tightest theorem for each chain; nothing is certified for gradients without a bound."""
    if variant.clip_norm is None:
        return ()
    bounds = (tightest(spec, mnist_setting.CLAIMED.delta) for spec in specs)
    return tuple(bound for bound in bounds if bound is not None)
