"""The page on scaling: a figure and a table of measured exponents, and what they say of a cluster."""

import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import fleet
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from papers.framework.figure import Figure

FEATURES = 20
RECORDS, MODELS = 1e9, 10_000
NODES, CORES, CARDS = 64, 16, 8  # the cluster that is imagined: nodes, cores of each, graphics cards of a node
DISK, RANDOM_READS, NETWORK = 2e9, 5e5, 3e9  # bytes/s, reads/s, bytes/s of each node
LATENCY, PAGE, BATCH = 5e-5, 4096, 256
_GPU_BATCH, _GPU_EPOCH, _GPU_WAVE, _GPU_WEIGHTS, _IMAGE = 4, 60_000, 132, 61_706, 784
_GPU_MEMORY = 141e9

_UNITS = {
    "records, full gradients": ("records", "CPU seconds a gradient"),
    "records, Poisson batches of 256": ("records", "CPU seconds a step"),
    "features, Poisson batches of 256": ("features", "CPU seconds a step"),
    "steps, whole chain": ("steps", "CPU seconds"),
    "steps, accountant": ("steps", "CPU seconds"),
    "chains, cyclic batches of 256": ("chains", "CPU seconds a step of all"),
    "models, fleet of 8-50-1": ("models", "CPU seconds a step of all"),
}


def write(measured: dict[str, Any], folder: Path) -> None:
    """bench/pages/scaling.md, and its figure as SVG and PNG in bench/pages/scaling/."""
    place = folder / "scaling"
    place.mkdir(parents=True, exist_ok=True)
    figures = measured["figures"]
    drawn = Figure("growth", lambda canvas: _draw(canvas, figures), width=11.0, height=5.6).render()
    for name, content in drawn.items():
        (place / name).write_bytes(content)
    rates = fleet.gpu_rates(fleet.GPU_PAGE.read_text(encoding="utf-8")) if fleet.GPU_PAGE.exists() else {}
    (folder / "scaling.md").write_text("\n".join(_page(measured, rates)) + "\n", encoding="utf-8")


def _draw(canvas: Any, figures: dict[str, Any]) -> None:
    panels = canvas.subplots(2, 4).ravel()
    panels[-1].set_axis_off()
    for panel, (axis, seconds) in zip(panels[:-1], figures["seconds"].items(), strict=True):
        fit = figures["exponents"][axis]
        sizes = np.array([float(size) for size in seconds])
        medians = np.array([np.median(taken) for taken in seconds.values()])
        ends = np.array([(min(taken), max(taken)) for taken in seconds.values()]).T
        panel.errorbar(sizes, medians, np.abs(ends - medians), fmt="o", color="#1f4e79", capsize=2, linewidth=1)
        panel.plot(sizes, np.exp(fit["intercept"]) * sizes ** fit["slope"], color="#c0504d", linewidth=1.3)
        panel.set_xscale("log")
        panel.set_yscale("log")
        size, cost = _UNITS[axis]
        panel.set_title(f"{axis}\nexponent {fit['slope']:.2f}", fontsize=9)
        panel.set_xlabel(size, fontsize=9)
        panel.set_ylabel(cost, fontsize=8.5)
        panel.tick_params(which="both", labelsize=7.5)


def _page(measured: dict[str, Any], gpu: dict[str, float]) -> Iterator[str]:
    figures, machine = measured["figures"], measured["machine"]
    yield "# How cost grows"
    yield ""
    yield (
        f"Written by `make bench`, code of commit `{measured.get('code', 'unknown')}`; do not edit. The figures as "
        "JSON: [scaling.json](../recorded/areas/scaling.json)."
    )
    yield ""
    yield (
        f"Measured on one core of {machine['processor']} in one process, sizes in turns, CPU seconds. Logistic "
        f"regression with {FEATURES} features, clipped gradients and Gaussian noise, unless a panel says otherwise. "
        "An exponent is the slope of a straight line through the logarithms of all repetitions, with Student's 95 % "
        "interval. Where a fixed cost weighs on small sizes the points bend; the exponent of the three largest sizes "
        "says where they are going, and is the one that is used below."
    )
    yield ""
    yield "![Cost against size, seven panels, both axes logarithmic](scaling/growth.svg)"
    yield ""
    yield "| cost against | sizes | at the largest | exponent | 95 % interval | three largest sizes | 95 % interval |"
    yield "| --- | --- | ---: | ---: | --- | ---: | --- |"
    for axis, seconds in figures["seconds"].items():
        sizes = [f"{int(size):,}" for size in seconds]
        fits = [figures[name][axis] for name in ("exponents", "upper exponents")]
        last = float(np.median(list(seconds.values())[-1]))
        yield (
            f"| {axis} | {sizes[0]} to {sizes[-1]} | {last:.3g} {_UNITS[axis][1]} | "
            + " | ".join(f"{fit['slope']:.3f} | {fit['low']:.3f} to {fit['high']:.3f}" for fit in fits)
            + " |"
        )
    yield ""
    yield from _assumptions(gpu)
    yield from _billion(figures)
    yield from _ten_thousand(figures, gpu)


def _assumptions(gpu: dict[str, float]) -> Iterator[str]:
    yield "## What is assumed of a cluster"
    yield ""
    yield "None of this was measured here; change a number and the estimates below change with it."
    yield ""
    yield (
        "1. **Exponents** of the three largest sizes go on beyond what was measured, within their intervals. Below 1, "
        "an exponent of a cost that reads every record is a fixed cost wearing off: 1 is taken instead."
    )
    yield "2. **Cores** are as fast as the one measured, and each keeps its share of its node's memory bandwidth."
    yield f"3. **Size**: {NODES} nodes of {CORES} cores; {CARDS} graphics cards of the recorded kind in a node."
    yield "4. **Sharing out** loses only what travels: chains and models do not talk, rows are summed once a step."
    yield (
        f"5. **Network**: {NETWORK / 1e9:g} GB/s a node, {1e6 * LATENCY:g} microseconds a message; a sum over all "
        f"nodes takes 2 log2({NODES}) messages."
    )
    yield (
        f"6. **Disk**: {DISK / 1e9:g} GB/s read in order and {RANDOM_READS:,.0f} random reads a second a node, each of "
        f"{PAGE} bytes."
    )
    yield f"7. **Rows** are {FEATURES} numbers and a target in single precision: {_row_bytes()} bytes."
    yield "8. **Utility** and what privacy allows at such sizes are another matter; this page is about cost alone."
    if not gpu:
        yield "9. **Graphics cards**: no recorded rate was found, so what follows says nothing about them."
    yield ""


def _billion(figures: dict[str, Any]) -> Iterator[str]:
    seconds, cores = figures["seconds"], NODES * CORES
    in_memory, memory_low, memory_high = _extrapolated(figures, "records, full gradients", RECORDS, least=1.0)
    step, step_low, step_high = _extrapolated(figures, "records, Poisson batches of 256", RECORDS, least=0.0)
    size = RECORDS * _row_bytes()
    travel = 2 * np.log2(NODES) * (LATENCY + 4 * FEATURES / NETWORK)
    accountant = float(np.median(seconds["steps, accountant"]["1000000"]))
    disk, compute = size / NODES / DISK, in_memory / cores
    binds = "the disks" if disk > compute else "the cores"
    yield "## A billion records"
    yield ""
    yield f"{_bytes(size)} of rows; {_bytes(size / NODES)} on each node, which fits in its memory after the first pass."
    yield ""
    yield "| | one core | the cluster | from |"
    yield "| --- | ---: | ---: | --- |"
    yield (
        f"| a full gradient, rows in memory | {_time(in_memory)} ({_time(memory_low)} to {_time(memory_high)}) "
        f"| {_time(compute)} and {_time(float(travel))} to sum, {_time(disk)} to read the rows first | "
        f"exponent {figures['upper exponents']['records, full gradients']['slope']:.3f} |"
    )
    yield (
        f"| a step with a Poisson batch of {BATCH}, rows in memory | {_time(step)} ({_time(step_low)} to "
        f"{_time(step_high)}) | the same: a step is too small to share | exponent "
        f"{figures['upper exponents']['records, Poisson batches of 256']['slope']:.3f} |"
    )
    yield (
        f"| the same, rows on disk | and {_time(BATCH / RANDOM_READS)} of random reads | the same | {BATCH} pages of "
        f"{PAGE} bytes for {BATCH * _row_bytes() / 1024:.0f} kB of rows |"
    )
    yield (
        f"| certifying a million steps | {_time(accountant)} | - | measured; the number of records enters through the "
        "sampling rate alone |"
    )
    yield ""
    yield (
        f"**What binds.** Full gradients: on a first pass {binds}; once rows are in memory, memory bandwidth of the "
        f"cores; the network carries {4 * FEATURES} bytes a node and step, so its latency shows only when a step takes "
        f"less than {_time(10 * float(travel))}. Mini-batches: random reads, {_time(BATCH / RANDOM_READS)} a step "
        f"against {_time(step)} of computing, until the rows fit in one memory; batches of neighbouring rows (cyclic, "
        "or shuffled once while writing) avoid them, and have theorems of their own."
    )
    yield ""


def _ten_thousand(figures: dict[str, Any], gpu: dict[str, float]) -> Iterator[str]:
    together, low, high = _extrapolated(figures, "models, fleet of 8-50-1", MODELS, least=1.0)
    yield "## Ten thousand models"
    yield ""
    yield "| | one device | the cluster | from |"
    yield "| --- | ---: | ---: | --- |"
    yield (
        f"| a step of {MODELS:,} networks of 8-50-1, clipped, on cores | {_time(together)} ({_time(low)} to "
        f"{_time(high)}) | {_time(together / (NODES * CORES))} | exponent "
        f"{figures['upper exponents']['models, fleet of 8-50-1']['slope']:.3f} |"
    )
    rate = fleet.fastest(gpu, fleet.KERNEL)
    if rate is not None:
        epoch = MODELS * _GPU_EPOCH / _GPU_BATCH / rate
        cards, waves = NODES * CARDS, ceil(MODELS / _GPU_WAVE)
        yield (
            f"| an epoch of {MODELS:,} LeNet-5 on {_GPU_EPOCH:,} images, batches of {_GPU_BATCH} | {_time(epoch)} | "
            f"{_time(epoch / waves)}: {waves} waves of {_GPU_WAVE} models on {min(waves, cards)} of {cards} cards | "
            f"[{rate:,.0f} model-steps a second](fleet-gpu.md), recorded |"
        )
        epoch *= RECORDS / _GPU_EPOCH
        yield (
            f"| an epoch of them on {RECORDS:,.0f} images | {_time(epoch)} | {_time(epoch / waves)} on "
            f"{min(waves, cards)} cards | the same rate, if images were at hand |"
        )
    yield ""
    shared, given = _stream(rate), NETWORK / CARDS
    yield (
        f"**What binds.** Weights do not: {MODELS:,} LeNet-5 are {_bytes(4.0 * MODELS * _GPU_WEIGHTS)}. A wave of "
        f"{_GPU_WAVE} models fills a card, so {ceil(MODELS / _GPU_WAVE)} cards are all that can be used at once. "
        f"Images do, at a billion: in single precision they are {_bytes(4 * RECORDS * _IMAGE)}, a card holds "
        f"{_bytes(_GPU_MEMORY)}, and now every model draws its batches from all of them. Were the models of a card to "
        f"see the same images in the same order, it would take in {_bytes(shared)} a second, of {_bytes(given)} that "
        f"the network gives it; each in an order of its own needs {_bytes(_GPU_WAVE * shared)}, and the network binds. "
        "Memory of the card binds first: fleets hold all images on it now. A shared order (cyclic batches), streamed, "
        "would lift that."
    )
    yield ""


def _stream(rate: float | None) -> float:
    """Bytes a second a card takes in when its models all see the same images in the same order."""
    return 0.0 if rate is None else rate / _GPU_WAVE * _GPU_BATCH * 4 * _IMAGE


def _extrapolated(figures: dict[str, Any], axis: str, size: float, least: float) -> tuple[float, float, float]:
    """From the largest size that was measured, by the exponent there and the two ends of its interval."""
    seconds, fit = figures["seconds"][axis], figures["upper exponents"][axis]
    last = list(seconds)[-1]
    factor, base = size / float(last), float(np.median(seconds[last]))
    at = [base * factor ** max(fit[name], least) for name in ("slope", "low", "high")]
    return at[0], at[1], at[2]


def _row_bytes() -> int:
    return 4 * (FEATURES + 1)


def _bytes(size: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"


def _time(seconds: float) -> str:
    for unit, scale in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= (scale if unit in {"s", "ms"} else 2 * scale):
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
