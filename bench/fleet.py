"""How fast a fleet of small networks trains on one core: JSON to bench/results/fleet.json, and a Markdown table.

    python bench/fleet.py [--without-peers]

Model-steps per CPU-second, medians of repetitions, everyone in turns; every target is a ratio of two figures of this
run, because machines differ. PyTorch and Opacus live in an environment of their own (`bench/peers`).
"""

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments

ROUNDS = 3
# (name, ours, theirs, at least)
TARGETS = (
    ("64 networks: over PyTorch, one after another", "fleet", "torch, one after another", 60.0),
    ("64 networks: over torch.func.vmap", "fleet", "torch.func.vmap", 6.0),
    (
        "64 networks, clipped, with noise: over Opacus, one after another",
        "fleet, clipped, with noise",
        "opacus, one after another",
        40.0,
    ),
    ("64 networks: over a plain jax.vmap", "fleet", "plain jax.vmap", None),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--without-peers", action="store_true", help="leave out what has to be installed")
    scripts = {"sordino": (sys.executable, "sordino_fleet.py")}
    if not parser.parse_args().without_peers:
        scripts["torch"] = (environments.python_of("opacus"), "torch_fleet.py")
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in scripts}
    for _ in range(ROUNDS):  # in turns, so that a busy moment of the machine hits all alike
        for name, script in scripts.items():
            answers[name].append(environments.on_one_core(*script))
    rates = {
        way: statistics.median(answer["rates"][way] for answer in given)
        for given in answers.values()
        for way in given[0]["rates"]
    }
    targets = [
        {
            "name": name,
            "ratio": rates[ours] / rates[theirs],
            "wanted": wanted,
            "met": None if wanted is None else rates[ours] / rates[theirs] >= wanted,
        }
        for name, ours, theirs, wanted in TARGETS
        if theirs in rates
    ]
    answer = {
        "machine": {"processor": platform.machine(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]},
        "model-steps per CPU-second": rates,
        "variance explained": {name: given[0]["accuracy"] for name, given in answers.items()},
        "versions": {name: given[0]["versions"] for name, given in answers.items()},
        "targets": targets,
    }
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "fleet.json").write_text(json.dumps(answer, indent=2) + "\n")
    print(json.dumps(answer, indent=2))
    print("\n| ratio | measured | target | met |\n| --- | ---: | ---: | --- |")
    for target in targets:
        wanted = "none |" if target["wanted"] is None else f"at least {target['wanted']:g} | "
        met = "" if target["met"] is None else ("yes" if target["met"] else "no")
        print(f"| {target['name']} | {target['ratio']:.1f} | {wanted}{met} |")


if __name__ == "__main__":
    main()
