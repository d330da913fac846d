"""The page of private networks, bench/pages/networks.md, from bench/recorded/networks.json.

    python bench/networks_page.py [--recipes FILE]

`recipes` are the results of examples/mnist/recipe.py, `speed` those of bench/networks.py; nothing is measured here.
With `--recipes`, the lines of JSON that the recipes printed into that file are recorded first: each takes the place of
the run of that recipe at that epsilon.
"""

import argparse
import json
from pathlib import Path
from textwrap import fill
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE / "pages" / "networks.md"
# What the same network reached in the example of opacus, at the epsilon that it states; read off that example.
OPACUS_EXAMPLE = {1.16: 0.9463, 2.91: 0.9678, 6.86: 0.9709}
INTRODUCTION = """# Private networks

Written by `python bench/networks_page.py` from `bench/recorded/networks.json`; do not edit. One {device}, JAX {jax}.

## MNIST

`python examples/mnist/recipe.py scattering|cnn|sgld --data-dir DIR --out FOLDER --epsilon ... --seed {seed}`: 60,000
records, relation add-remove, delta 1e-5, one run for each row, scored on the 10,000 test rows. Settings and the
temperature of the scores were chosen on 10,000 training rows that were cut off (`bench/mnist_settings.py`), never on
test rows; that choice is outside the guarantee. One standard error of an accuracy is .12 points at 98.5 %. Runs were
seeded, so that they can be made again: such a run is no release. *At least* is the lower bound of the audit by
canaries in the same run, at a confidence of 95 %. Sums and noise are whole numbers; rows marked * are of an
earlier version, in single precision.

| recipe | epsilon | at least | accuracy | calibration error | log-loss |
| --- | --- | --- | --- | --- | --- |
"""


def recipe_row(found: dict[str, Any]) -> str:
    """One line of the table of recipes."""
    cells = (f"{found['epsilon']:.3g}", f"{found['at_least']:.2f}", f"{100 * found['accuracy']:.2f} %")
    rest = (f"{100 * found['expected calibration error']:.2f} %", f"{found['log-loss']:.4f}")
    name = found["recipe"] + (" *" if found.get("floating") else "")
    return "| " + " | ".join((name, *cells, *rest)) + " |"


def against_example(recipes: list[dict[str, Any]], held_out: list[dict[str, Any]]) -> list[str]:
    """The convolutional network beside the example of opacus, whose network it is."""
    about = (
        "The network of `cnn` is that of opacus's MNIST example. It starts from a network that has learnt to tell "
        "invented signs apart, curves drawn by a generator with no data in them (`digits.taught_start`), "
        "where the example starts at random."
    )
    lines = ["", fill(about, 118), ""]
    lines += ["| epsilon | here | the example | difference |", "| --- | --- | --- | --- |"]
    for found in sorted((one for one in recipes if one["recipe"] == "cnn"), key=lambda one: one["asked"]):
        theirs = OPACUS_EXAMPLE.get(found["asked"])
        if theirs is not None:
            here, gap = found["accuracy"], found["accuracy"] - theirs
            lines.append(f"| {found['asked']:g} | {100 * here:.2f} % | {100 * theirs:.2f} % | {100 * gap:+.2f} |")
    since = (
        "A difference of one point is aimed at in all three rows. The settings were chosen on the cut of training rows "
        "before any test row was scored with them; on the 10,000 rows that chose them they have:"
    )
    lines += ["", fill(since, 118), "", "| epsilon | records a step | accuracy on rows that chose it |"]
    lines += ["| --- | --- | --- |"]
    for one in held_out:
        lines.append(f"| {one['epsilon']:g} | {one['records']:,} | {100 * one['accuracy']:.2f} % |")
    note = "Steps of 5,000 records have the noise of a step of all 50,000."
    return [*lines, "", note]


def speed_rows(speed: dict[str, Any]) -> list[str]:
    """Images a second, and Sordino's rate over each."""
    rates = {row["contender"]: row["images_per_second"] for row in speed["rows"]}
    earlier = {row["contender"] for row in speed["rows"] if row.get("earlier")}
    ours, versions = rates["sordino"], speed["versions"]
    lines = ["", "## Clipped images a second", ""]
    about = (
        f"`python bench/networks.py --peers DIR`: the network of `cnn`, batches of {speed['batch']:,}, on one "
        f"{speed['device']}; opacus {versions['opacus']} with PyTorch {versions['torch']}, jax-privacy "
        f"{versions['jax-privacy']}, JAX {versions['jax']}. *plain* trains without privacy; *mixed* computes products "
        "in bfloat16; *exact* sums in whole numbers. Rows marked * are of an earlier session on such a machine, in "
        "which Sordino had 1,652,348 and plain JAX 2,493,661, before lengths were rounded to the safe side."
    )
    lines += [
        fill(about, 118),
        "",
        "| contender | images a second | Sordino's rate over it |",
        "| --- | --- | --- |",
    ]
    for name, rate in sorted(rates.items(), key=lambda one: -one[1]):
        lines.append(f"| {name}{' *' if name in earlier else ''} | {rate:,.0f} | {ours / rate:.2f} |")
    best = max(rate for name, rate in rates.items() if name.startswith("opacus"))
    found = (
        f"Privacy costs a factor of {rates['plain jax'] / ours:.2f} over the same training without it, and "
        f"{rates['plain jax'] / rates['sordino exact']:.2f} in whole numbers. Against the fastest mode of opacus the "
        f"ratio is {ours / best:.1f} ({rates['sordino mixed'] / best:.1f} in mixed precision), where 5 was aimed at. "
        f"Plain JAX has {rates['plain jax'] / best:.1f} times the rate of that mode without any privacy: on a network "
        "as small as this one, 5 is out of reach in single precision."
    )
    return [*lines, "", fill(found, 118)]


def exact_rows(exact: dict[str, Any]) -> list[str]:
    """What whole numbers do on the device, and draws a second there."""
    each = ", ".join(f"{float(rate) / 1e9:.2f} at scale {scale}" for scale, rate in exact["draws a second"].items())
    drawn = (
        f"Exact whole-number Gaussians on the device, ChaCha20 words and what the host settles included, billions a "
        f"second: {each} (aim 2; {exact['draws']:,} at once, the best of several rounds beside other work)."
    )
    own = exact["own bits"]
    places = (
        "Sums in whole numbers are covered where the device computes the same bits for a record in all places of a "
        f"block. On this GPU convolutions of its own do not: {own['places that differ']:,} of {own['block']:,} places "
        "had other bits, and some had with `--xla_gpu_deterministic_ops=true`. The check before a run finds it, and "
        "products with weights are then made of whole numbers (`networks/reproducible_ops.py`): all places are alike "
        "here, and sums are the same for permuted, removed and otherwise cut records. That has "
        f"{own['images a second']:,.0f} images a second, where single precision had {own['single precision']:,.0f} in "
        "the same minute; the rate of *sordino exact* above is with the device's own products. On processors these "
        "are alike in all places (`tests/mechanisms/networks`)."
    )
    run, attack = exact["whole run"], exact["whole run"]["attack"]
    whole = (
        f"A whole run there (`python bench/trained_bits.py`; this network, {run['rows']:,} rows, {run['steps']} steps, "
        f"blocks of {run['block']:,}) says *{run['says']}* for floating point, and its weights have the same bits on "
        "permuted rows. The check of compiled sums accepts the device and refuses a planted wrong sum. An attack on "
        f"the last bits of {attack['numbers']:,} noised numbers, with one record that contributes or none, has a "
        f"p-value of {attack['whole numbers']:.2f} in whole numbers and of less than "
        f"{max(attack['single precision'], 1e-300):.0e} in single precision."
    )
    return ["", "## Whole numbers", "", fill(places, 118), "", fill(whole, 118), "", fill(drawn, 118)]


def with_recipes(recorded: list[dict[str, Any]], lines: list[str]) -> list[dict[str, Any]]:
    """Runs by recipe and epsilon, the later one of each."""
    runs = {(one["recipe"], one["asked"]): one for one in recorded}
    for found in (json.loads(line) for line in lines if line.startswith('{"recipe"')):
        runs[found["recipe"], found["asked"]] = found
    return sorted(runs.values(), key=lambda one: (["scattering", "sgld", "cnn"].index(one["recipe"]), one["asked"]))


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", type=Path)
    given, kept = parser.parse_args(), HERE / "recorded" / "networks.json"
    recorded = json.loads(kept.read_text("utf-8"))
    if given.recipes is not None:
        recorded["recipes"] = with_recipes(recorded["recipes"], given.recipes.read_text("utf-8").splitlines())
        kept.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    text = INTRODUCTION.format(**{name: recorded[name] for name in ("device", "jax", "seed")})
    lines = [recipe_row(found) for found in recorded["recipes"]]
    lines += against_example(recorded["recipes"], recorded["held_out"]) + speed_rows(recorded["speed"])
    lines += exact_rows(recorded["exact"])
    PAGE.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
