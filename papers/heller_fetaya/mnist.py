"""Heller and Fetaya, Figures 2 and 3: LeNet-5 on MNIST by SGLD, attacked epoch by epoch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from papers.framework.figure import ONE_PANEL, Figure, line_style
from papers.framework.item import Beside, Cell, Lower, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.heller_fetaya import mnist_setting
from papers.heller_fetaya.attack import cap
from papers.heller_fetaya.mnist_experiment import Experiment, experiments, read_through
from papers.heller_fetaya.mnist_setting import CLAIMED
from sordino.auditing.lower_bound import LowerBound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


# The figures of the network audit: lower bounds and accuracy by epoch, and the canaries.

NAMES = {
    "probabilities": "attack of the paper",
    "log-odds": "attack on log-odds",
    "log-odds, chosen cut": "the same, cut chosen",
}
_PLACES = {"probabilities": 0, "log-odds": 1, "log-odds, chosen cut": 4}
_SIZES = {"probabilities": 10.0, "log-odds": 6.5, "log-odds, chosen cut": 3.5}  # so that equal bounds stay in sight


def draw_experiment(canvas: "Canvas", experiment: Experiment) -> None:
    """Bounds above, accuracy below, over the same epochs; what is certified has a panel of its own scale."""
    if experiment.certified:
        top, upper, lower = canvas.subplots(3, 1, sharex=True, height_ratios=(1.3, 2.0, 1.0))
        _draw_certified(top, experiment)
    else:
        upper, lower = canvas.subplots(2, 1, sharex=True, height_ratios=(2.4, 1))
    _draw_bounds(upper, experiment)
    epochs = experiment.findings.epochs
    lower.plot([each.epoch for each in epochs], [100 * each.accuracy for each in epochs], **line_style(5))
    lower.set(xlabel="epoch", ylabel="accuracy, %")
    lower.xaxis.get_major_locator().set_params(integer=True)


def _draw_bounds(axes: "Axes", experiment: Experiment) -> None:
    findings = experiment.findings
    numbers = [each.epoch for each in findings.epochs]
    if experiment.certified:
        axes.plot(numbers, experiment.stated, label="the paper's upper curve, by its own accounting", **line_style(2))
    else:
        axes.axhline(findings.cap, label="the most these models could show", **line_style(3, markers=False))
    found = {attack: [bound.epsilon for bound in findings.bounds(attack, joint=False)] for attack in findings.attacks}
    if not any(any(bounds) for bounds in found.values()):
        # Three lines on top of each other would look like one.
        axes.plot(numbers, [0.0] * len(numbers), label="all three attacks show 0", **line_style(0))
        found = {}
    for attack, bounds in found.items():
        style: dict[str, Any] = {**line_style(_PLACES[attack]), "markersize": _SIZES[attack]}
        axes.plot(numbers, bounds, label=f"{NAMES[attack]}: at least this", **style)
    top = max(experiment.stated) if experiment.certified else findings.cap
    axes.set(ylabel=f"epsilon at delta {CLAIMED.delta:g}", ylim=(-0.06 * top, 1.4 * top))
    axes.legend(loc="upper left", ncols=2)


def _draw_certified(axes: "Axes", experiment: Experiment) -> None:
    numbers = [each.epoch for each in experiment.findings.epochs]
    certified = [bound.guarantee.epsilon(CLAIMED.delta) for bound in experiment.certified]
    axes.plot(numbers, certified, label="certified for the passes that are run, replace-one", **line_style(1))
    axes.axhline(experiment.findings.cap, label="the most these models could show", **line_style(3, markers=False))
    axes.set(ylabel="epsilon", ylim=(0, None))
    axes.legend(loc="upper left")


def draw_canaries(canvas: "Canvas", experiments: tuple[Experiment, ...]) -> None:
    """Each record, what it was pushed to, and the change; every picture has the whole range of greys to itself."""
    panels = canvas.subplots(3, len(experiments), squeeze=False)
    for column, experiment in enumerate(experiments):
        record, canary = experiment.canary.x_zero, experiment.canary.x_star
        side, most = round(len(record) ** 0.5), float(abs(canary - record).max())
        panels[0, column].imshow(record.reshape(side, side), cmap="gray_r")
        panels[1, column].imshow(canary.reshape(side, side), cmap="gray_r")
        change = (canary - record).reshape(side, side)
        panels[2, column].imshow(change, cmap="RdBu_r", vmin=-most, vmax=most)
        units = {"relu": "rectified", "tanh": "tangents"}[experiment.variant.activation]
        clipped = ", clipped" if experiment.certified else ""
        panels[0, column].set_title(f"{units}{clipped}\n{experiment.canary.length:.1f} pushes")
        panels[2, column].set_xlabel(f"up to {most:.2g}")
    for row, word in enumerate(("record", "canary", "change")):
        panels[row, 0].set_ylabel(word)
    for axes in panels.ravel():
        axes.set(xticks=(), yticks=())
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set(visible=True, color="#bdbdbd")


# The tables of the network audit, and the few numbers of it that are named elsewhere.

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
    certified = [Upper(bound.guarantee.epsilon(mnist_setting.CLAIMED.delta)) for bound in experiment.certified]
    rows = tuple((*row, *pair) for row, *pair in zip(_rows(experiment), experiment.stated, certified, strict=True))
    theorem = experiment.certified[-1].theorem
    caption = (
        f"Clipped. The same, {counted(experiment)}. Then the paper's upper curve by its own accounting, which is about "
        "batches drawn afresh and adding or removing a record, and what is certified for the passes that are run: "
        f"`{theorem}` for the last iterate, replace-one."
    )
    return Table(experiment.variant.name, (*_COLUMNS, "by the paper's accounting", "certified epsilon"), rows, caption)


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


# What the network audit says in words: its verdict, and the notes that its numbers need.

# Best epochs of 44 models of D for each way, measured beside the pilots and not recorded.
_CLIPPED_WAYS = (
    "Other ways to fill what the paper leaves out change the clipped accuracy little or for the worse, by the best of "
    "22 epochs of 44 models: pixels in [0, 1] 0.877, in [-1, 1] 0.871, in [-0.1, 1.175] 0.878; rectified activations "
    "0.777. Noise, not pixels, holds it down: a visit moves the weights by at most 0.0002, noise by about 0.09."
)


def sentence(found: Mapping[str, Experiment]) -> str:
    """The verdict's reason: the paper's attack on the settings nearest to its own first, then a stronger canary."""
    plain, clipped = found["plain"], found["clipped"]
    of_paper, of_all = largest(plain, ("probabilities",)).epsilon, largest(plain).epsilon
    tanh, near = found.get("plain-tanh"), found.get("plain-near")
    nearest, canary = "", ""
    if tanh is not None:
        nearest = (
            "Figure 2 prints no numbers beside its cap, and neither activation nor canary. The attack the paper "
            "states, on the settings nearest to its own that were run (hyperbolic tangents, a canary at "
            f"{tanh.canary.length:.1f} times DeepFool's push, just far enough to fool every model of the ensemble), "
            f"shows {_down(largest(tanh, ('probabilities',)).epsilon)} at most. "
        )
        canary = f", with a canary chosen by trial at {plain.canary.length:.1f} times DeepFool's push,"
    if near is not None:
        nearest += (
            "With rectified units and a canary pushed just so far too "
            f"({near.canary.length:.1f} times) it shows {_down(largest(near, ('probabilities',)).epsilon)}. "
        )
    return (
        f"{nearest}On rectified networks{canary} the same attack reaches {_down(of_paper)} and the best of three "
        f"{_down(of_all)}, of {_down(plain.findings.cap)} that so many models could show; with 90 % confidence over "
        f"all epochs and attacks epsilon is at least {_down(plain.findings.over_all().epsilon)}. On the clipped chain "
        f"no attack shows anything above {_down(largest(clipped).epsilon)}, as in Figure 3; the paper's upper curve by "
        f"its own accounting runs from {clipped.stated[0]:.3f} to {clipped.stated[-1]:.3f}, while for the passes that "
        f"are run here {clipped.certified[-1].guarantee.epsilon(CLAIMED.delta):.1f} is certified."
    )


def notes(found: Mapping[str, Experiment]) -> tuple[str, ...]:
    """What a reader has to know about how the numbers came about."""
    return _of_recorded(found) if "plain-tanh" in found else _SMALL


_SMALL = (
    "A small run on generated images: a rectified network with eight hidden units, the canary of four records that "
    "pulls hardest, batches in file order. It shows that the lines work, and says nothing about MNIST.",
    "Because the label is kept, the paper's four probabilities are two, each twice. The other attacks take their "
    "log-odds, cut at even odds or where the bound on the teaching models is largest; joint bounds pay for all three.",
)


def _of_recorded(found: Mapping[str, Experiment]) -> tuple[str, ...]:
    plain, clipped = found["plain"], found["clipped"]
    verdicts = Counter(kind.value for kind in clipped.verdicts())
    held = ", ".join(f"{count} {kind}" for kind, count in sorted(verdicts.items()))
    epochs = ", ".join(f"{len(each.findings.epochs)} {name}" for name, each in found.items())
    test, claimed = plain.findings.halves.test, plain.findings.claimed
    joint = cap(test, test, claimed.delta, plain.findings.joint_confidence)
    return (
        f"The runs were {plain.where}, with so many epochs: {epochs}; what is recorded are the probabilities that the "
        "attacks read. `python bench/neural_gpu.py --data DIR --output OUT --variant plain --seed 1` runs one of them "
        "with a word on every epoch.",
        "The chain: theta <- theta - 0.004 (mean of four gradients + theta / 60000) + sqrt(2 * 0.004 / 60000) xi. "
        "Clipped is each example's gradient over all 61,706 parameters, to norm 0.2, before the mean; the prior's pull "
        "is not.",
        "The paper does not give the activation (here rectified for the plain audit, hyperbolic tangents for the "
        "others), the number of models M (here 32, five epochs), the scaling of pixels (here the usual mean 0.1307 and "
        "deviation 0.3081), the order of batches (here shuffled once per model) or the canary.",
        *(_STOPPED if "plain-near" in found else ()),
        "Why the activation matters: a visit adds 0.001 times the squared length of its own gradient to the log-odds "
        "of the canary. Tangents saturate, so with them a visit adds about one however far an image is pushed, and "
        "noise has moved the log-odds as far after a few epochs; with rectified units it adds tens.",
        "The canary of the rectified networks was chosen by trial, among records and lengths of DeepFool's push, on "
        "models of their own (table pilot). Neither these nor the ensemble are among the attacked models, so the "
        "bounds hold however it was chosen. Trials with tangents came first and showed separations of about 2, also "
        "for images changed until their gradient was long; that is why the activation was changed. The other "
        "canaries are, of 24 records, the one that a visit would move furthest against how much models vary.",
        "A push is measured in lengths of DeepFool's, which fools the ensemble's mean; the shortest that fools each of "
        "its 32 models is longer. All canaries but that chosen by trial are pushed so far and no further.",
        "A canary's pixels may leave the range of grey values; only the length of the image is bounded, by that of an "
        "image all white.",
        "Because the label is kept, the paper's four probabilities are two, each twice. The other attacks take their "
        "log-odds, cut at even odds or where the bound on the teaching models is largest. They were added after the "
        "run with tangents had shown the paper's attack to be weak there; joint bounds pay for all three.",
        f"Clipped bounds against the certificate, every epoch and attack: {held}. Inconclusive means that so few "
        f"models could not have shown more than {_down(clipped.findings.cap)}, which is below what is certified.",
        "Figure 3's upper curve: sampled Gaussian steps at rate 4/60000 and noise multiplier "
        f"{mnist_setting.NOISE / (mnist_setting.STEP / mnist_setting.BATCH * mnist_setting.CLIP_NORM):.3f}, Opacus's "
        "orders, converted by Proposition III.4. Its orders end at 63, which alone gives log(1e5) / 62 = 0.186: the "
        "curve is nearly flat for that reason. It is right for batches drawn afresh; for passes, as here, it is not a "
        "bound.",
        _CLIPPED_WAYS,
        f"With {2 * test} counted models, {test} a side, no attack can show more than {_down(plain.findings.cap)} at "
        f"joint 90 % for both error rates, or {_down(joint)} where all epochs and attacks share it; the paper's 4.89 "
        "is what 400 a side would give.",
        "Accuracy is the mean over all models on every fifth test image.",
    )


_STOPPED = (
    "The run plain-near has 22 epochs, as many as its time on the device allowed; an earlier one of 14 came out the "
    "same to the last bit.",
    "Both rectified runs were made again with other versions of JAX, plain-near in full and 19 of the 25 epochs of "
    "plain. The canaries agree to the sixth digit; models of D' do not, since rectified networks enlarge such a "
    "difference. The paper's attack shows 1.417 at most on plain-near (1.410 as recorded) and 4.119 on plain (4.124 "
    "in these epochs), the best of three 2.440 (2.342) and 4.405 (4.411).",
)


def _down(value: float) -> str:
    return f"{int(value * 1000) / 1000:g}"


# Section V and Appendix E of Heller & Fetaya: a thousand LeNet-5 told apart by one record of MNIST.

PAPER_CAP, PAPER_CLIPPED_ACCURACY = 4.89, 0.906
_ORDER = ("plain-tanh", "plain-near", "plain", "clipped")
_CLAIMS: tuple[tuple[str, Cell], ...] = (
    ("delta", mnist_setting.CLAIMED.delta),
    ("confidence", mnist_setting.CLAIMED.confidence),
)
_PLAIN_CAPTION = "SGLD: lower bounds on epsilon of each epoch's iterate, 90 % confidence each, and test accuracy."
_CAPTIONS = {
    "plain-tanh": (
        f"{_PLAIN_CAPTION} Hyperbolic tangents and a canary pushed just until it fools every model of the ensemble: "
        "the nearest to the paper's Figure 2."
    ),
    "plain-near": "The same with rectified activations, the canary again pushed just until it fools every model.",
    "plain": "The same with rectified activations and a canary chosen by trial, pushed much further.",
    "clipped": (
        "Per-example gradients clipped to 0.2: what is certified for the passes that are run; the paper's upper curve "
        "by its own accounting, for batches drawn afresh, over the attacks' lower bounds, all 0; and test accuracy."
    ),
}


_CANARIES = (
    "The record of D, the canary that stands for it in D', and the change, in the units the network sees. Above: the "
    "network's units, and how many times DeepFool's push the canary was moved. Every picture is scaled by its own "
    "range."
)
_DIGITS = "Chart of digits in three rows, a column for each of four runs: the record, the canary, and their difference."


@item(
    name="heller-fetaya-mnist",
    paper="heller2023can",
    reproduces="Figures 2 and 3, lower bounds on the loss of SGLD on LeNet-5 by epoch, plain and clipped",
    reads=("mnist",),
    sliced=True,
)
def network(options: Options) -> Outcome:
    """An ensemble, a DeepFool canary, models of D and of D', and attacks on every epoch."""
    run = experiments(options)
    # The settings nearest to the paper's come first.
    found = {name: run[name] for name in _ORDER if name in run}
    tables = [certified_table(each) if each.certified else findings_table(each) for each in found.values()]
    if found["plain"].pilot:
        tables.append(pilot_table(found["plain"]))
    if options.quick and options.data_dir is not None:
        rows = read_through(options.data_dir)
        tables.append(
            Table("data-path", ("step of the full run", "found"), rows, "What the full run reads, read once.")
        )
    return Outcome(
        (*tables, canary_table(found.values())),
        (
            *(_figure(each) for each in found.values()),
            Figure(
                "canaries", lambda canvas: draw_canaries(canvas, tuple(found.values())), _CANARIES, 6.2, 6.0, _DIGITS
            ),
        ),
        Verdict(VerdictKind.PARAMETERS_NOT_PUBLISHED, sentence(found)),
        notes(found),
        _parameters(options.quick),
        _beside(found),
    )


def _figure(experiment: Experiment) -> Figure:
    name = experiment.variant.name
    return Figure(name, lambda canvas: draw_experiment(canvas, experiment), _CAPTIONS[name], ONE_PANEL[0], 5.4)


def _beside(found: Mapping[str, Experiment]) -> tuple[Beside, ...]:
    plain, clipped = found["plain"], found["clipped"]
    of_paper, of_all = largest(plain, ("probabilities",)), largest(plain)
    rows = [Beside("cap of the plain bound", PAPER_CAP, Lower(plain.findings.cap), counted(plain))]
    if "plain-tanh" in found:
        nearest = largest(found["plain-tanh"], ("probabilities",))
        rows.append(
            Beside("largest plain bound, nearest settings", None, Lower(nearest.epsilon), _epoch(nearest.evidence))
        )
    if "plain-near" in found:
        near = largest(found["plain-near"], ("probabilities",))
        rows.append(
            Beside("largest plain bound, the same push, rectified", None, Lower(near.epsilon), _epoch(near.evidence))
        )
    return (
        *rows,
        Beside("largest plain bound, stronger canary", None, Lower(of_paper.epsilon), _epoch(of_paper.evidence)),
        Beside("the same, any attack", None, Lower(of_all.epsilon), _epoch(of_all.evidence)),
        Beside("the same, over all epochs and attacks", None, Lower(plain.findings.over_all().epsilon), "joint 90 %"),
        Beside("plain accuracy", None, best_accuracy(plain), "best epoch, mean over models; the paper: 8 % above 90.6"),
        Beside("largest clipped bound", None, Lower(largest(clipped).epsilon), "the paper: no breach shown"),
        Beside(
            "upper curve of Figure 3, first and last epoch",
            None,
            f"{clipped.certified[0].guarantee.epsilon(CLAIMED.delta):.2f}, "
            f"{clipped.certified[-1].guarantee.epsilon(CLAIMED.delta):.2f}",
            "ours: certified for passes, replace-one",
            f"{clipped.stated[0]:.4f}, {clipped.stated[-1]:.4f}",
        ),
        Beside("clipped accuracy", PAPER_CLIPPED_ACCURACY, best_accuracy(clipped), "best epoch, mean over models"),
    )


def _epoch(evidence: str) -> str:
    return evidence.rpartition("; ")[2]


def _parameters(quick: bool) -> tuple[tuple[str, Cell], ...]:
    if quick:
        plan = mnist_setting.small_setting(None, 0).plan
        models = ("models", "64 plain, 64 clipped")
        sizes = (
            ("records", mnist_setting.SMALL_RECORDS),
            ("network", "64-8-4"),
            models,
            ("batch, in file order", mnist_setting.BATCH),
        )
        return (*sizes, ("step, plain", plan.step_size), ("noise scale, plain", plan.noise_scale), *_CLAIMS)
    return (
        ("records", mnist_setting.RECORDS),
        ("models", "1,000 plain, 400 clipped"),
        ("activation", "rectified; plain-tanh and clipped: hyperbolic tangent"),
        ("step for the mean of a batch", mnist_setting.STEP),
        ("noise scale", mnist_setting.NOISE),
        ("batch, shuffled once", mnist_setting.BATCH),
        ("weight decay", mnist_setting.PLAIN.model.weight_decay),
        ("clip norm, clipped variant", mnist_setting.CLIP_NORM),
        *_CLAIMS,
    )
