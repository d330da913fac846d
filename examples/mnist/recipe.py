"""Private MNIST classifiers, each one command: certificate, audit of the same run, accuracy and calibration, report.

    python examples/mnist/recipe.py scattering --data-dir DIR --out FOLDER [--epsilon 1 3 8]
    python examples/mnist/recipe.py cnn        --data-dir DIR --out FOLDER [--epsilon 1 3 8]
    python examples/mnist/recipe.py sgld       --data-dir DIR --out FOLDER [--epsilon 1 3 8]

- scattering: scattering features, normalised in groups and whitened by the law of synthetic strokes (no data), a
  linear head, all records in every step;
- cnn: the small convolutional network of opacus's example, all records in every step, from a start that has learnt to
  tell invented signs apart (no data);
- sgld: the linear head again, as noisy gradient descent whose kept points are an ensemble: predictions are averaged.

DIR holds mnist.npz. Relation add-remove, delta 1e-5. Settings, and the temperature of the scores, were chosen on a cut
of the training rows by bench/mnist_settings.py, never on the test rows; that choice is outside the guarantee. Writes
for each epsilon a release folder with its audit, one `report.html` for all of them, and `results.json`.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))
import digits

from sordino import Training, fit_network
from sordino.auditing.lower_bound import verdict
from sordino.fitting.gradient_runs import FittedNetwork, classification_quality
from sordino.mechanisms.networks.training import Descent, Trained

DELTA, RELATION = 1e-5, "add-remove"
STROKES = 20_000
SETTINGS = json.loads(Path(__file__).with_name("settings.json").read_text("utf-8"))


@dataclass(frozen=True)
class Setting:
    """What was chosen on a cut of the training rows for one epsilon.

    `pace` is the length that weights may move a step when all gradients agree, momentum's whole weight counted.
    """

    rounds: int
    clip: float
    pace: float
    momentum: float
    temperature: float
    damping: float = 0.1
    power: float = 0.5
    average: float = 0.95
    fall: bool = False
    activation: str = "relu"
    start: str = "drawn"
    held_out: float = 0.0  # accuracy on the rows that were cut off

    def training(self, **more: Any) -> Training:
        """Momentum, and a running average of the weights."""
        rate = self.pace * (1.0 - self.momentum) / self.clip
        return Training(Descent(rate, self.momentum, self.rounds if self.fall else None), average=self.average, **more)


def setting(recipe: str, epsilon: float) -> Setting:
    """The setting of the nearest epsilon that was searched at."""
    chosen = SETTINGS["linear" if recipe == "scattering" else recipe]
    nearest = min(chosen, key=lambda word: abs(np.log(float(word) / epsilon)))
    return Setting(**chosen[nearest])


def quality(scores: Any, temperature: float, test: digits.Digits) -> dict[str, Any]:
    """On the test rows."""
    return classification_quality(np.asarray(jax.nn.softmax(temperature * scores)), test.labels)


class Scattering:
    """Features of all rows, once, and fits of a linear head on them."""

    def __init__(self, train: digits.Digits, test: digits.Digits) -> None:
        self.train, self.test = train, test
        self.rows = [digits.scattering_rows(part.images) for part in (train, test)]
        self.strokes = digits.scattering_rows(digits.strokes(STROKES))

    def whitened(self, chosen: Setting) -> list[NDArray[np.float32]]:
        """Rows of length 1."""
        turned = jax.jit(digits.whitener(self.strokes, chosen.damping, chosen.power).__call__)
        pieces = [
            [np.asarray(turned(part[first : first + 5000])) for first in range(0, len(part), 5000)]
            for part in self.rows
        ]
        return [np.concatenate(piece) for piece in pieces]

    def fit(self, epsilon: float, common: dict[str, Any]) -> FittedNetwork:
        """One head; its running average is released."""
        chosen = setting("scattering", epsilon)
        rows, shown = self.whitened(chosen)

        def measure(params: Any) -> dict[str, Any]:
            return quality(digits.linear_scores(params, shown), chosen.temperature, self.test)

        return self._fitted(rows, chosen, epsilon, chosen.training(microbatch=8192), measure, common)

    def ensemble(self, epsilon: float, common: dict[str, Any]) -> FittedNetwork:
        """Kept points of the second half of noisy gradient descent, and the mean of their predictions."""
        chosen = setting("sgld", epsilon)
        rows, shown = self.whitened(chosen)
        keep = tuple(range(chosen.rounds // 2, chosen.rounds + 1, max(1, chosen.rounds // 20)))

        def measure(trained: Trained) -> dict[str, Any]:
            each = [
                np.asarray(jax.nn.softmax(chosen.temperature * digits.linear_scores(one, shown)))
                for one in trained.kept
            ]
            return classification_quality(np.mean(each, axis=0), self.test.labels) | {"points": len(each)}

        rate = chosen.pace / chosen.clip
        training = Training(Descent(rate), microbatch=8192, keep=keep)
        return self._fitted(rows, chosen, epsilon, training, measure, common)

    def _fitted(self, rows: Any, chosen: Setting, epsilon: float, training: Training, measure: Any, common: Any) -> Any:
        return fit_network(
            lambda params, example: digits.cross_entropy(digits.linear_scores(params, example[0]), example[1]),
            digits.linear_start(rows.shape[1]),
            (rows, self.train.labels),
            epsilon=epsilon,
            rounds=chosen.rounds,
            clip=chosen.clip,
            training=training,
            measure=measure,
            query="of a linear head on scattering features",
            **common,
        )


def fit_cnn(train: digits.Digits, test: digits.Digits, epsilon: float, common: dict[str, Any]) -> FittedNetwork:
    """The small convolutional network."""
    chosen = setting("cnn", epsilon)
    activation = digits.ACTIVATIONS[chosen.activation]
    scores = partial(digits.network_scores, activation=activation)

    def measure(params: Any) -> dict[str, Any]:
        return quality(jax.jit(jax.vmap(partial(scores, params)))(test.images), chosen.temperature, test)

    return fit_network(
        lambda params, example: digits.cross_entropy(scores(params, example[0]), example[1]),
        digits.STARTS[chosen.start](jax.random.key(0), activation),
        (train.images, train.labels),
        epsilon=epsilon,
        rounds=chosen.rounds,
        clip=chosen.clip,
        training=chosen.training(microbatch=4096),
        measure=measure,
        query="of a small convolutional network",
        **common,
    )


def main() -> None:
    """Fit at every epsilon, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=("scattering", "cnn", "sgld"))
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="reproducible, and then NON-PRIVATE")
    parser.add_argument("--rows", type=int, default=None, help="of the training rows, the first so many")
    asked = parser.parse_args()
    train, test = digits.read(asked.data_dir)
    train = train.rows(slice(0, asked.rows))
    common = {
        "delta": DELTA,
        "relation": RELATION,
        "records": len(train.labels),  # as public as the set
        "canaries": asked.canaries,
        "random_state": asked.seed,
    }
    features = None if asked.recipe == "cnn" else Scattering(train, test)
    asked.out.mkdir(parents=True, exist_ok=True)
    results, folders = [], []
    for epsilon in asked.epsilon:
        begun = time.monotonic()
        if features is None:
            fitted = fit_cnn(train, test, epsilon, common)
        else:
            fitted = (features.fit if asked.recipe == "scattering" else features.ensemble)(epsilon, common)
        measured = {name: value for name, value in fitted.release.settings["measured"].items() if name != "bins"}
        lower = fitted.audit
        results.append(
            {"recipe": asked.recipe, "asked": epsilon, "epsilon": fitted.release.epsilon, **measured}
            | {"floating": not fitted.trained.exact}
            | (
                {}
                if lower is None
                else {"at_least": lower.epsilon, "verdict": verdict(fitted.release.bound, lower).kind}
            )
            | {"seconds": time.monotonic() - begun}
        )
        sys.stdout.write(json.dumps(results[-1]) + "\n")
        sys.stdout.flush()
        folders.append(_written(asked.out / f"{asked.recipe}-{epsilon:g}", fitted))
        (asked.out / f"{asked.recipe}-results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    _report(folders, asked.out / f"{asked.recipe}-report.html")


def _written(folder: Path, fitted: FittedNetwork) -> Path:
    """The release folder, with its audit."""
    from sordino.ledger.release import write_release  # noqa: PLC0415  (only where folders are written)

    written = write_release(folder, fitted.release)
    if fitted.audit is not None:
        answer = json.dumps(fitted.audit.answer(fitted.release.bound))
        (written / "audit.json").write_text(answer, encoding="utf-8")
    return written


def _report(folders: list[Path], page: Path) -> None:
    from sordino.report.page import write_report  # noqa: PLC0415
    from sordino.report.subject import open_subject  # noqa: PLC0415

    write_report([open_subject(folder) for folder in folders], page)


if __name__ == "__main__":
    main()
