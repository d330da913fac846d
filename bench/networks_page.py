"""The page of private networks, docs/results/networks.md, from bench/recorded/networks.json.

`recipes` are the results of examples/mnist/recipe.py, `speed` those of bench/networks.py; nothing is measured here.
"""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "networks.md"
# What the same network reached in the example of opacus, at the epsilon that it states; read off that example.
OPACUS_EXAMPLE = {1.16: 0.9463, 2.91: 0.9678, 6.86: 0.9709}
INTRODUCTION = """# Private networks

Written by `python bench/networks_page.py` from `bench/recorded/networks.json`; do not edit. One {device}, JAX {jax}.
All figures are of the trainer before lengths of gradients were rounded to the safe side (see the changelog); one step
of `cnn` on a processor took up to 1.4 times as long since.

## MNIST

`python examples/mnist/recipe.py scattering|cnn|sgld --data-dir DIR --out FOLDER --epsilon ... --seed {seed}`: 60,000
records, relation add-remove, delta 1e-5, one run for each row, scored on the 10,000 test rows. Settings and the
temperature of the scores were chosen on 10,000 training rows that were cut off (`bench/mnist_settings.py`), never on
test rows; that choice is outside the guarantee. One standard error of an accuracy is .12 points at 98.5 %. Runs were
seeded, so that they can be made again: such a run is no release. *At least* is the lower bound of the audit by
canaries in the same run.

| recipe | epsilon | at least | accuracy | calibration error | log-loss |
| --- | --- | --- | --- | --- | --- |
"""


def recipe_row(found: dict[str, Any]) -> str:
    """One line of the table of recipes."""
    cells = (f"{found['epsilon']:.3g}", f"{found['at_least']:.2f}", f"{100 * found['accuracy']:.2f} %")
    rest = (f"{100 * found['expected calibration error']:.2f} %", f"{found['log-loss']:.4f}")
    return "| " + " | ".join((found["recipe"], *cells, *rest)) + " |"


def against_example(recipes: list[dict[str, Any]]) -> list[str]:
    """The convolutional network beside the example of opacus, whose network it is."""
    lines = ["", "The network of `cnn` is that of opacus's MNIST example:", ""]
    lines += ["| epsilon | here | the example | difference |", "| --- | --- | --- | --- |"]
    for found in sorted((one for one in recipes if one["recipe"] == "cnn"), key=lambda one: one["asked"]):
        theirs = OPACUS_EXAMPLE.get(found["asked"])
        if theirs is not None:
            here, gap = found["accuracy"], found["accuracy"] - theirs
            lines.append(f"| {found['asked']:g} | {100 * here:.2f} % | {100 * theirs:.2f} % | {100 * gap:+.2f} |")
    return [*lines, "", "A difference of one point was aimed at in all three rows."]


def speed_rows(speed: dict[str, Any]) -> list[str]:
    """Images a second, and Sordino's rate over each."""
    rates = {row["contender"]: row["images_per_second"] for row in speed["rows"]}
    ours, versions = rates["sordino"], speed["versions"]
    lines = ["", "## Clipped images a second", ""]
    about = (
        f"`python bench/networks.py --peers DIR`: the network of `cnn`, batches of {speed['batch']:,}, a process for "
        f"each contender, on one {speed['device']}; opacus {versions['opacus']} with PyTorch {versions['torch']}, "
        f"jax-privacy {versions['jax-privacy']}, JAX {versions['jax']}. *plain* trains without privacy; *mixed* "
        "computes products in bfloat16. The row of jax-privacy is from a run a minute before the others, in which "
        "Sordino had 1,656,297."
    )
    lines += [
        fill(about, 118),
        "",
        "| contender | images a second | Sordino's rate over it |",
        "| --- | --- | --- |",
    ]
    for name, rate in sorted(rates.items(), key=lambda one: -one[1]):
        lines.append(f"| {name} | {rate:,.0f} | {ours / rate:.2f} |")
    best = max(rate for name, rate in rates.items() if name.startswith("opacus"))
    found = (
        f"Privacy costs a factor of {rates['plain jax'] / ours:.2f} over the same training without it. Against the "
        f"fastest mode of opacus the ratio is {ours / best:.1f} ({rates['sordino mixed'] / best:.1f} in mixed "
        f"precision), where 5 was aimed at. Plain JAX has {rates['plain jax'] / best:.1f} times the rate of that mode "
        "without any privacy: on a network as small as this one, 5 is out of reach in single precision."
    )
    return [*lines, "", fill(found, 118)]


def main() -> None:
    """Write the page."""
    recorded = json.loads((HERE / "recorded" / "networks.json").read_text("utf-8"))
    text = INTRODUCTION.format(**{name: recorded[name] for name in ("device", "jax", "seed")})
    lines = [recipe_row(found) for found in recorded["recipes"]]
    lines += against_example(recorded["recipes"]) + speed_rows(recorded["speed"])
    PAGE.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
