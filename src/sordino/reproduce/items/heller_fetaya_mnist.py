"""Section V and Appendix E of Heller & Fetaya: a thousand LeNet-5 told apart by one record of MNIST."""

from sordino.reproduce.cells import Cell, Lower
from sordino.reproduce.figure import Figure
from sordino.reproduce.heller_fetaya import mnist_setting as full
from sordino.reproduce.heller_fetaya import mnist_small as small
from sordino.reproduce.heller_fetaya.mnist_experiment import Experiment, experiments
from sordino.reproduce.heller_fetaya.mnist_figures import draw_canaries, draw_experiment
from sordino.reproduce.heller_fetaya.mnist_tables import (
    best_accuracy,
    canary_table,
    certified_table,
    counted,
    findings_table,
    largest,
    pilot_table,
)
from sordino.reproduce.heller_fetaya.mnist_words import notes, sentence
from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Beside, Outcome, Verdict, VerdictKind

PAPER_CAP, PAPER_CLIPPED_ACCURACY = 4.89, 0.906
_CLAIMS: tuple[tuple[str, Cell], ...] = (("delta", full.CLAIMED.delta), ("confidence", full.CLAIMED.confidence))
_PLAIN_CAPTION = "SGLD: lower bounds on epsilon of each epoch's iterate, 90 % confidence each, and test accuracy."
_CAPTIONS = {
    "plain": _PLAIN_CAPTION,
    "plain-tanh": "The same with hyperbolic tangents, and a canary pushed only until it fools the ensemble.",
    "clipped": (
        "Per-example gradients clipped to 0.2: the certified upper bound, the lower bounds, 90 % confidence each, and "
        "test accuracy."
    ),
}


@item(
    name="heller-fetaya-mnist",
    paper="heller2023can",
    reproduces="Figures 2 and 3, lower bounds on the loss of SGLD on LeNet-5 by epoch, plain and clipped",
)
def network(options: Options) -> Outcome:
    """An ensemble, a DeepFool canary, models of D and of D', and attacks on every epoch."""
    found = experiments(options)
    tables = [certified_table(each) if each.certified else findings_table(each) for each in found.values()]
    if found["plain"].pilot:
        tables.append(pilot_table(found["plain"]))
    order = ", ".join(f"{name}: D, D'" for name in found)
    return Outcome(
        (*tables, canary_table(found.values())),
        (
            *(_figure(each) for each in found.values()),
            Figure("canaries", lambda canvas: draw_canaries(canvas, tuple(found.values())), f"{order}.", 7.6, 1.9),
        ),
        Verdict(VerdictKind.PARAMETERS_NOT_PUBLISHED, sentence(found)),
        notes(found),
        _parameters(options.quick),
        _beside(found["plain"], found["clipped"]),
    )


def _figure(experiment: Experiment) -> Figure:
    name = experiment.variant.name
    return Figure(name, lambda canvas: draw_experiment(canvas, experiment), _CAPTIONS[name], 7.6, 5.4)


def _beside(plain: Experiment, clipped: Experiment) -> tuple[Beside, ...]:
    of_paper, of_all = largest(plain, ("probabilities",)), largest(plain)
    return (
        Beside("cap of the plain bound", PAPER_CAP, Lower(plain.findings.cap), counted(plain)),
        Beside("largest plain bound, attack of the paper", None, Lower(of_paper.epsilon), _epoch(of_paper.evidence)),
        Beside("largest plain bound, any attack", None, Lower(of_all.epsilon), _epoch(of_all.evidence)),
        Beside("the same, over all epochs and attacks", None, Lower(plain.findings.over_all().epsilon), "joint 90 %"),
        Beside("plain accuracy", "98-99 %", best_accuracy(plain), "best epoch, mean over models"),
        Beside("largest clipped bound", "none shown", Lower(largest(clipped).epsilon), counted(clipped)),
        Beside("clipped accuracy", PAPER_CLIPPED_ACCURACY, best_accuracy(clipped), "best epoch, mean over models"),
    )


def _epoch(evidence: str) -> str:
    return evidence.rpartition("; ")[2]


def _parameters(quick: bool) -> tuple[tuple[str, Cell], ...]:
    if quick:
        plan = small.small_setting(None, 0).plan
        models = ("models", "64 plain, 64 clipped")
        sizes = (("records", small.RECORDS), ("network", "64-8-4"), models, ("batch, in file order", full.BATCH))
        return (*sizes, ("step, plain", plan.step_size), ("noise scale, plain", plan.noise_scale), *_CLAIMS)
    return (
        ("records", full.RECORDS),
        ("models", "1,000 plain, 400 clipped"),
        ("activation", "rectified; plain-tanh and clipped: hyperbolic tangent"),
        ("step for the mean of a batch", full.STEP),
        ("noise scale", full.NOISE),
        ("batch, shuffled once", full.BATCH),
        ("weight decay", full.PLAIN.model.weight_decay),
        ("clip norm, clipped variant", full.CLIP_NORM),
        *_CLAIMS,
    )
