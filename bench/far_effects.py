"""How often intervals hold where true effects are far beyond the prior that bounded influence assumes.

    python bench/far_effects.py [--tables 16] [--write]

Four columns in [-1, 1], uniform or concentrated. One effect, or all four, are a multiple of the prior standard
deviation, the others half of it. With one, targets stay inside their declared bounds; with all, those of linear and
Poisson models are cut at them, so that their rates say nothing about the prior alone. Relation replace-one, delta 1e-6.
With `--write` the table goes to bench/pages/far-effects.md; `FAR_COVERED` in ledger/release/folder.py has its ranges.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sordino import estimators
from sordino.estimators import ArrayBounds
from sordino.ledger.release.folder import LEVELS

PAGE = Path(__file__).parent / "pages" / "far-effects.md"
MULTIPLES, CELLS, COLUMNS = (3.0, 4.5, 6.0), ((2000, 1.0), (10_000, 1.0), (2000, 4.0)), 4
HALF = 10.0  # of the declared range of a linear target
MODELS: dict[str, tuple[Any, float, ArrayBounds]] = {
    "linear": (estimators.PrivateLinearRegression, 0.1 * HALF, ArrayBounds(-1, 1, target=(-HALF, HALF))),
    "logistic": (estimators.PrivateLogisticRegression, 1.0, ArrayBounds(-1, 1, classes=(0, 1))),
    "poisson": (estimators.PrivatePoissonRegression, 1.0, ArrayBounds(-1, 1, target=(0, 2000))),
}


def table(family: str, far: int, multiple: float, records: int, epsilon: float, seed: int) -> list[list[bool]] | None:
    """For every level and effect of one drawn table whether its interval held; None where the fit was refused."""
    kind, scale, bounds = MODELS[family]
    g = np.random.default_rng([seed, records])
    X = g.uniform(-1, 1, (records, COLUMNS)) if seed % 2 else np.clip(g.normal(0, 0.3, (records, COLUMNS)), -1, 1)
    truth = scale * np.where(np.arange(COLUMNS) < far, multiple, 0.5) * g.choice([-1, 1], COLUMNS)
    scores = X @ truth
    y: Any = (scores + g.logistic(size=records) > 0).astype(int)
    if family == "linear":
        y = np.clip(scores + g.normal(0, 0.1 * HALF, records), -HALF, HALF)
    elif family == "poisson":
        y = np.minimum(g.poisson(np.exp(np.minimum(scores, 8.0))), 2000).astype(float)
    model = kind(
        epsilon=epsilon, delta=1e-6, relation="replace-one", schema=bounds, method="bounded-influence",
        random_state=seed,
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
    except ValueError:
        return None
    lines = [model.summary(level).lines[1:] for level in LEVELS]
    return [[bool(one.low <= t <= one.high) for one, t in zip(some, truth, strict=True)] for some in lines]


def rows(tables: int) -> list[str]:
    """The lines of the table, one a cell."""
    made = []
    for family, far, multiple, (records, epsilon) in product(MODELS, (1, COLUMNS), MULTIPLES, CELLS):
        found = [one for seed in range(tables) if (one := table(family, far, multiple, records, epsilon, seed))]
        if found:
            shown = " | ".join(f"{100 * rate:.0f} %" for rate in np.mean(np.array(found), axis=(0, 2)))
            made.append(f"| {family} | {far} | {multiple:g} | {records} | {epsilon:g} | {len(found)} | {shown} |")
            print(made[-1], flush=True)
    return made


def main() -> None:
    """Measure, and write the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    header = "| model | far effects | their size over prior | records | epsilon | tables | " + " | ".join(
        f"{100 * x:g} %" for x in LEVELS
    )
    lines = [f"{header} |", "| " + " | ".join(["---"] * (6 + len(LEVELS))) + " |", *rows(given.tables)]
    if given.write:
        title = "# Effects far beyond the prior\n\nHow often intervals of bounded influence held the true effects"
        PAGE.write_text(
            f"{title}, by how many of four are far, and their size over the prior standard deviation. "
            "Levels stand in the header. With four, targets of linear and Poisson models are cut at their bounds. "
            "Made by `python bench/far_effects.py --write`.\n\n" + "\n".join(lines) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
