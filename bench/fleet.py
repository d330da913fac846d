"""Fleets against other libraries: model-steps per CPU-second on one core, and what was recorded on a GPU.

    python bench/fleet.py [--full]

64 networks with one hidden layer of 50, batches of 32 drawn afresh for every model and step
(bench/peers/fleet_task.py). The GPU rows are read from bench/pages/fleet-gpu.md: they were measured
once, on another machine.
"""

import re
from pathlib import Path
from typing import Any

import area
from rounds import OURS, Contender, in_rounds, versions_in
from rows import Question, Row

GPU_PAGE = Path(__file__).with_name("pages") / "fleet-gpu.md"
KERNEL, KERNEL_CLIPPED, COMPILED = "kernel, no clipping", "kernel, every example clipped", "compiled"
_ABOUT = "64 networks of 8-50-1, batches of 32 drawn afresh for every model and step; one core"
_UNIT = "model-steps per CPU-second"
PLAIN = Question("fleet", "plain", "64 small networks trained at once, plain steps", _UNIT, _ABOUT)
PRIVATE = Question("fleet", "private", "64 small networks, every gradient clipped, with noise", _UNIT, _ABOUT)
ON_GPU = Question(
    "fleet",
    "gpu",
    "1,056 LeNet-5 on one GPU, plain noisy steps",
    "model-steps per second",
    "Recorded once on another machine (bench/pages/fleet-gpu.md): our kernel against the same program as XLA "
    "compiles it",
)
ON_GPU_CLIPPED = Question(
    "fleet",
    "gpu clipped",
    "1,056 LeNet-5 on one GPU, every gradient clipped, against the compiled program without clipping",
    "model-steps per second",
    "Recorded once on another machine (bench/pages/fleet-gpu.md); the compiled program does not clip, which is less "
    "work",
)
# Question, our way, and the ways of the others with their names in the table.
COMPARED = (
    (
        PLAIN,
        "fleet",
        {
            "PyTorch (one by one)": "torch, one after another",
            "torch.func.vmap": "torch.func.vmap",
            "plain jax.vmap": "plain jax.vmap",
        },
    ),
    (PRIVATE, "fleet, clipped, with noise", {"opacus (one by one)": "opacus, one after another"}),
)


def on_one_core(rounds: int) -> tuple[list[Row], dict[str, Any]]:
    answers = in_rounds(
        {OURS: Contender("sordino_fleet.py"), "torch": Contender("torch_fleet.py", "opacus")},
        rounds,
    )
    ours, torch = answers[OURS], answers["torch"]
    rows = []
    for question, way, others in COMPARED:
        for peer, name in others.items():
            found = ours if name == "plain jax.vmap" else torch
            reason = ours.reason or found.reason
            if reason is not None:
                rows.append(question.missing(peer, reason))
                continue
            rates = [answer["rates"][name] for answer in found.given]
            rows.append(question.row(peer, [answer["rates"][way] for answer in ours.given], rates))
    explained = {name: found.given[0]["accuracy"] for name, found in answers.items() if found.given}
    return rows, {"variance explained": explained, "versions": versions_in(answers)}


def recorded() -> list[Row]:
    """The rows of the GPU page that compare, or one that says why they are not there."""
    try:
        rates = gpu_rates(GPU_PAGE.read_text(encoding="utf-8"))
    except OSError:
        rates = {}
    plain, clipped, compiled = (fastest(rates, start) for start in (KERNEL, KERNEL_CLIPPED, COMPILED))
    if plain is None or clipped is None or compiled is None:
        return [ON_GPU.missing("XLA", "bench/pages/fleet-gpu.md has no such rows")]
    return [
        ON_GPU.row("XLA", [plain], [compiled], recorded=True),
        ON_GPU_CLIPPED.row("XLA", [clipped], [compiled], recorded=True),
    ]


def gpu_rates(page: str) -> dict[str, float]:
    """Model-steps a second of each row of the page's table of rates."""
    rates = {}
    for line in page.splitlines():
        cells = [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")]
        if len(cells) > 3 and re.fullmatch(r"\d{1,3}(,\d{3})+", cells[3]):
            rates[cells[0]] = float(cells[3].replace(",", ""))
    return rates


def fastest(rates: dict[str, float], start: str) -> float | None:
    """The largest rate of the rows whose name begins so."""
    return max((rate for name, rate in rates.items() if name.startswith(start)), default=None)


def measure(full: bool) -> area.Measured:
    rows, others = on_one_core(7 if full else 5)
    return area.Measured([*rows, *recorded()], {"variance explained": others["variance explained"]}, others["versions"])


if __name__ == "__main__":
    area.main("fleet", measure, __doc__)
