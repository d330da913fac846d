"""What the network audit says in words: its verdict, and the notes that its numbers need."""

from collections import Counter
from collections.abc import Mapping

from sordino.audit.confidence import cap
from sordino.reproduce.heller_fetaya.mnist_experiment import Experiment
from sordino.reproduce.heller_fetaya.mnist_tables import best_accuracy, largest

# Best epochs of 44 models of D for each way, measured beside the pilots and not recorded.
_CLIPPED_WAYS = (
    "Other ways to fill what the paper leaves out change the clipped accuracy little or for the worse, by the best of "
    "22 epochs of 44 models: pixels in [0, 1] 0.877, in [-1, 1] 0.871, in [-0.1, 1.175] 0.878; rectified activations "
    "0.777. Noise, not pixels, holds it down: a visit moves the weights by at most 0.0002, noise by about 0.09."
)


def sentence(found: Mapping[str, Experiment]) -> str:
    """The verdict's reason."""
    plain, clipped = found["plain"], found["clipped"]
    of_paper, of_all = largest(plain, ("probabilities",)).epsilon, largest(plain).epsilon
    words = (
        f"As in the paper, plain SGLD leaks all that the attack can show: the paper's attack reaches {_down(of_paper)} "
        f"and the best of three {_down(of_all)}, of {_down(plain.findings.cap)} that so many models could show; with "
        f"90 % confidence over all epochs and attacks epsilon is at least {_down(plain.findings.over_all().epsilon)}. "
        f"On the clipped chain the largest bound is {_down(largest(clipped).epsilon)}, the accuracy "
        f"{best_accuracy(clipped):g}."
    )
    tanh = found.get("plain-tanh")
    if tanh is None:
        return words
    return (
        f"{words[:-1]}, against 0.906 in the paper. The activation and the canary, which the paper does not give, "
        "decide the size: with hyperbolic tangents and a canary pushed just far enough the largest bound is "
        f"{_down(largest(tanh).epsilon)}."
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
        f"The runs were {plain.where}, with so many epochs: {epochs}. Run one again with "
        "`python bench/neural_gpu.py --data DIR --output OUT --variant plain --seconds 465 --seed 1` on a GPU, or all "
        "with `sordino reproduce heller-fetaya-mnist --data-dir DIR` there; without a GPU the recorded probabilities "
        "are attacked again.",
        "The chain: theta <- theta - 0.004 (mean of four gradients + theta / 60000) + sqrt(2 * 0.004 / 60000) xi. "
        "Clipped is each example's gradient over all 61,706 parameters, to norm 0.2, before the mean; the prior's pull "
        "is not.",
        "The paper does not give the activation (here rectified for the plain audit, hyperbolic tangents for the "
        "others), the number of models M (here 32, five epochs), the scaling of pixels (here the usual mean 0.1307 and "
        "deviation 0.3081), the order of batches (here shuffled once per model) or the canary.",
        "Why the activation matters: a visit adds 0.001 times the squared length of its own gradient to the log-odds "
        "of the canary. Tangents saturate, so with them a visit adds about one however far an image is pushed, and "
        "noise has moved the log-odds as far after a few epochs; with rectified units it adds tens.",
        "The canary of the rectified networks was chosen by trial, among records and lengths of DeepFool's push, on "
        "models of their own (table pilot). Neither these nor the ensemble are among the attacked models, so the "
        "bounds hold however it was chosen. Trials with tangents came first and showed separations of about 2, also "
        "for images changed until their gradient was long; that is why the activation was changed. The other two "
        "canaries are, of 24 records, the one that a visit would move furthest against how much models vary.",
        "A canary's pixels may leave the range of grey values; only the length of the image is bounded, by that of an "
        "image all white.",
        "Because the label is kept, the paper's four probabilities are two, each twice. The other attacks take their "
        "log-odds, cut at even odds or where the bound on the teaching models is largest. They were added after the "
        "run with tangents had shown the paper's attack to be weak there; joint bounds pay for all three.",
        f"Clipped bounds against the certificate, every epoch and attack: {held}. Inconclusive means that so few "
        f"models could not have shown more than {_down(clipped.findings.cap)}, which is below what is certified.",
        _CLIPPED_WAYS,
        f"With {2 * test} counted models, {test} a side, no attack can show more than {_down(plain.findings.cap)} at "
        f"joint 90 % for both error rates, or {_down(joint)} where all epochs and attacks share it; the paper's 4.89 "
        "is what 400 a side would give.",
        "Accuracy is the mean over all models on every fifth test image.",
    )


def _down(value: float) -> str:
    return f"{int(value * 1000) / 1000:g}"
