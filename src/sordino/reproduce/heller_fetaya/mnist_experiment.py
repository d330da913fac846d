"""One variant as it was run: its findings, its canary, and what is certified for the same chain."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import jax

from sordino.accounting.evaluate import tightest
from sordino.audit import VerdictKind, verdict
from sordino.audit.neural import Canary, NeuralData, NeuralFindings, attack_canary, canary_against_ensemble
from sordino.audit.neural import described_chain as described
from sordino.core.bound import Bound
from sordino.core.spec import Spec
from sordino.data.benchmark import load_benchmark
from sordino.reproduce.heller_fetaya import mnist_setting as full
from sordino.reproduce.heller_fetaya import mnist_small as small
from sordino.reproduce.heller_fetaya.mnist_fleet import run_variant
from sordino.reproduce.heller_fetaya.mnist_pilot import Tried, load_pilot
from sordino.reproduce.heller_fetaya.mnist_recorded import load_recorded
from sordino.reproduce.options import Options

RECORDED = Path(__file__).with_name("recorded")
# More than any variant takes on one H200.
_SECONDS = 900.0


@dataclass(frozen=True, eq=False)
class Experiment:
    """A variant's findings by epoch; `certified` has a bound for every epoch of a chain that is clipped."""

    variant: full.Variant
    canary: Canary
    findings: NeuralFindings
    certified: tuple[Bound, ...]
    where: str
    pilot: tuple[tuple[Tried, ...], ...] = ()

    def verdicts(self) -> tuple[VerdictKind, ...]:
        """Every epoch's bounds, the paper's attack first, against the certificate."""
        return tuple(
            verdict(bound, self.findings.lower_bound(epoch.epoch, attack, joint=False)).kind
            for attack in self.findings.attacks
            for epoch, bound in zip(self.findings.epochs, self.certified, strict=True)
        )


def experiments(options: Options) -> dict[str, Experiment]:
    """Every variant by its name: small ones at once, in full on a GPU where there is one, else as recorded."""
    return {each.variant.name: each for each in _experiments(options)}


def _experiments(options: Options) -> tuple[Experiment, ...]:
    if options.quick:
        return _small(options.seed)
    if options.data_dir is not None and jax.default_backend() == "gpu":
        return _on_gpu(options.data_dir, options.seed)
    return tuple(_recorded(variant, RECORDED, "recorded on one NVIDIA H200") for variant in full.VARIANTS)


def _small(seed: int) -> tuple[Experiment, ...]:
    data, settings = small.generated_data(seed), [small.small_setting(norm, seed) for norm in (None, full.CLIP_NORM)]
    canary = canary_against_ensemble(small.MODEL, data, settings[0])
    made: list[Experiment] = []
    for variant, setting in zip((full.PLAIN, full.CLIPPED), settings, strict=True):
        findings = attack_canary(small.MODEL, data, setting, canary)
        specs = [
            described(small.MODEL, small.DOMAIN, setting.plan, small.RECORDS, each.epoch) for each in findings.epochs
        ]
        made.append(Experiment(variant, canary, findings, _certified(variant, specs), "run here, small"))
    return tuple(made)


def _on_gpu(folder: Path, seed: int) -> tuple[Experiment, ...]:
    data: NeuralData = full.mnist_data(load_benchmark("mnist", folder))
    with tempfile.TemporaryDirectory() as kept:
        for variant in full.VARIANTS:
            run_variant(variant.name, variant.model, data, variant.setting(seed), Path(kept), _SECONDS, lambda _: None)
        return tuple(_recorded(variant, Path(kept), "run here") for variant in full.VARIANTS)


def _recorded(variant: full.Variant, folder: Path, where: str) -> Experiment:
    recorded = load_recorded(folder, variant)
    findings = recorded.findings(variant)
    plan = variant.setting(recorded.seed).plan
    specs = [described(variant.model, full.DOMAIN, plan, full.RECORDS, each.epoch) for each in findings.epochs]
    pilot = load_pilot(folder, variant.name)
    return Experiment(variant, recorded.canary, findings, _certified(variant, specs), where, pilot)


def _certified(variant: full.Variant, specs: list[Spec]) -> tuple[Bound, ...]:
    """The tightest theorem for each chain; nothing is certified for gradients without a bound."""
    if variant.clip_norm is None:
        return ()
    found = (tightest(spec, full.CLAIMED.delta) for spec in specs)
    return tuple(bound for bound in found if bound is not None)
