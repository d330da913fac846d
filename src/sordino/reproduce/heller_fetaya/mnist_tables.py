"""The tables of the network audit, and the few numbers of it that are named elsewhere."""

from collections.abc import Iterable, Sequence

from sordino.audit.lower_bound import LowerBound
from sordino.reproduce.cells import Cell, Lower, Upper
from sordino.reproduce.heller_fetaya import mnist_setting as full
from sordino.reproduce.heller_fetaya.mnist_experiment import Experiment
from sordino.reproduce.table import Table

# Candidates of each round of trial that the table shows.
_SHOWN = 8
_COLUMNS = (
    "epoch",
    "accuracy",
    "paper's attack: errors",
    "epsilon",
    "log-odds: errors",
    "epsilon, log-odds",
    "chosen cut: errors",
    "epsilon, chosen cut",
    "joint epsilon",
)


def largest(experiment: Experiment, attacks: Sequence[str] = ()) -> LowerBound:
    """The largest bound of an epoch alone, by these attacks or by any."""
    findings = experiment.findings
    own = [bound for attack in attacks or findings.attacks for bound in findings.bounds(attack, joint=False)]
    return max(own, key=lambda bound: bound.epsilon)


def best_accuracy(experiment: Experiment) -> float:
    """The best epoch's accuracy, mean over models."""
    return round(max(each.accuracy for each in experiment.findings.epochs), 4)


def counted(experiment: Experiment) -> str:
    """How many models the errors are counted on."""
    return f"{experiment.findings.halves.test} models counted on either side"


def findings_table(experiment: Experiment) -> Table:
    """Errors and bounds by epoch."""
    words = {"relu": "rectified activations", "tanh": "hyperbolic tangents"}[experiment.variant.activation]
    caption = (
        f"SGLD, {words}. Errors are false positives + false negatives, {counted(experiment)}. Each epsilon is a lower "
        "bound at delta 1e-5 that holds with 90 % confidence alone; the joint ones hold for all epochs and attacks at "
        "once."
    )
    return Table(experiment.variant.name, _COLUMNS, tuple(_rows(experiment)), caption)


def certified_table(experiment: Experiment) -> Table:
    """The same, with what is certified."""
    certified = [Upper(bound.guarantee.epsilon(full.CLAIMED.delta)) for bound in experiment.certified]
    rows = tuple((*row, bound) for row, bound in zip(_rows(experiment), certified, strict=True))
    theorem = experiment.certified[-1].theorem
    caption = f"Clipped. The same, {counted(experiment)}; certified by `{theorem}` for the last iterate, replace-one."
    return Table(experiment.variant.name, (*_COLUMNS, "certified epsilon"), rows, caption)


def canary_table(found: Iterable[Experiment]) -> Table:
    """What was replaced by what."""
    rows = tuple(
        (
            each.variant.name,
            each.canary.row,
            each.canary.label,
            round(each.canary.length, 1),
            round(float(((each.canary.x_star - each.canary.x_zero) ** 2).sum() ** 0.5), 2),
            each.findings.halves.each * 2,
            len(each.findings.epochs),
        )
        for each in found
    )
    columns = ("variant", "record", "label", "multiple of DeepFool's push", "distance", "models", "epochs")
    return Table("canaries", columns, rows, "What was replaced, and how far its image was pushed.")


def pilot_table(experiment: Experiment) -> Table:
    """The best candidates of every round."""
    rows = tuple(
        (
            number,
            each.row,
            each.label,
            round(each.length, 1),
            round(each.score, 2),
            round(each.separations[-1], 2),
            len(each.separations),
        )
        for number, found in enumerate(experiment.pilot, start=1)
        for each in found[:_SHOWN]
    )
    tried = " and ".join(str(len(found)) for found in experiment.pilot)
    caption = (
        f"How the canary of the rectified networks was chosen: the best of {tried} candidates in the rounds of trial. "
        "Separation is the difference of mean log-odds of the label at the canary, models of D' against models of D, "
        "over their pooled deviation; candidates are ranked by the least one in the second half of the epochs. None of "
        "these models is attacked."
    )
    columns = ("round", "record", "label", "multiple of DeepFool's push", "least separation", "last", "epochs")
    return Table("pilot", columns, rows, caption)


def _rows(experiment: Experiment) -> list[tuple[Cell, ...]]:
    findings = experiment.findings
    rows: list[tuple[Cell, ...]] = []
    for each in findings.epochs:
        cells: list[Cell] = [each.epoch, round(each.accuracy, 4)]
        for attack in findings.attacks:
            counts = each.counts(attack)
            errors = f"{counts.false_positives} + {counts.false_negatives}"
            cells += [errors, Lower(findings.lower_bound(each.epoch, attack, joint=False).epsilon)]
        joint = [findings.lower_bound(each.epoch, attack, joint=True).epsilon for attack in findings.attacks]
        rows.append((*cells, Lower(max(joint))))
    return rows
