"""Every measurement, one after another, and the pages made of them: `make bench`, `make bench-full`.

    python bench/run.py [--full] [--only accounting,fit] [--reuse] [--draft] [--patience 3]

First every peer is installed in an environment of its own under bench/envs. Then each area runs in a process of its
own; what fails becomes a line that says why. Results: docs/results/bench/*.json, docs/results/bench.md, scaling.md and
its figure. `--reuse` writes the pages again from what was recorded; `--draft` measures
one round into bench/results/draft, to see that everything runs, and leaves the recorded results alone.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import bench_page
import readme_figures
import scaling_page
from machine import measured_code
from rows import Question

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "results"
RECORDED = DOCS / "bench"
# Area, and the seconds after which it is given up, in the quick run; the full run has six times as many.
AREAS = {
    "accounting": 400,
    "chains": 400,
    "fleet": 350,
    "message_passing": 400,
    "utility": 400,
    "audit": 120,
    "fit": 150,
    "noise": 60,
    "install": 200,
    "scaling": 400,
}
ONLY_FULL = {"operations": 200}
SCRIPTS = {"utility": "utility_rows", "noise": "exact_noise"}  # where the script is not called like its area


def install() -> dict[str, str]:
    """Make every environment; the reasons of those that could not be made."""
    reasons = {}
    for peer in environments.PACKAGES:
        begin = time.perf_counter()
        try:
            environments.python_of(peer)
            if peer == "sordino":
                environments.renew_own()
        except environments.CouldNotRunError as failure:
            reasons[peer] = str(failure)
        print(f"  {peer}: {reasons.get(peer, 'ready')} ({time.perf_counter() - begin:.0f} s)", flush=True)
    return reasons


def run_area(name: str, full: bool, limit: float, folder: Path) -> dict[str, Any]:
    """Run one area and read what it wrote; an area that fails answers with the reason."""
    output = folder / f"{name}.json"
    output.unlink(missing_ok=True)
    command = [
        sys.executable,
        str(HERE / f"{SCRIPTS.get(name, name)}.py"),
        "--output",
        str(output),
        *(["--full"] if full else []),
    ]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, errors = process.communicate(timeout=limit)
        said = [line for line in errors.splitlines() if line.strip()] or ["no message"]
        reason = None if process.returncode == 0 else said[-1][:200]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
        process.communicate()
        reason = f"not finished after {limit:g} s"
    if reason is None and output.exists():
        return json.loads(output.read_text(encoding="utf-8"))
    reason = reason or "it wrote nothing"
    print(f"  {name} could not be run: {reason}", flush=True)
    missing = Question(name, "all", f"everything about {name}", "-", "").missing("everyone", reason)
    answer = {
        "area": name,
        "code": measured_code(),
        "full": full,
        "seconds": round(time.perf_counter() - begin, 1),
        "rows": [missing.to_dict()],
        "figures": {"reason": reason},
        "versions": {},
        "machine": {},
    }
    output.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--full", action="store_true", help="more sizes, more repetitions, and what is promised alone")
    parser.add_argument("--only", default="", help="areas, separated by commas")
    parser.add_argument("--reuse", action="store_true", help="measure nothing; write the pages from recorded results")
    parser.add_argument("--draft", action="store_true", help="one round, into bench/results/draft; no page is written")
    parser.add_argument("--patience", type=float, default=1.0, help="multiplies the time limits, for a busy machine")
    given = parser.parse_args()
    areas = AREAS | (ONLY_FULL if given.full else {})
    chosen = [name for name in given.only.split(",") if name] or list(areas)
    unknown = sorted(set(chosen) - set(areas))
    if unknown:
        parser.error(f"no area is called {', '.join(unknown)}; there are {', '.join(areas)}")
    folder = HERE / "results" / "draft" if given.draft else RECORDED
    folder.mkdir(parents=True, exist_ok=True)
    if given.draft:
        os.environ[environments.DRAFT] = "1"
    if not given.reuse:
        print("environments:", flush=True)
        install()
        begin = time.perf_counter()
        for name in chosen:
            print(f"{name}:", flush=True)
            limit = given.patience * areas[name] * (6 if given.full else 1)
            found = run_area(name, given.full, limit, folder)
            print(f"  {found['seconds']:.0f} s", flush=True)
        print(f"measured in {(time.perf_counter() - begin) / 60:.1f} minutes, installation excluded", flush=True)
    recorded = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    recorded = {name: found for name, found in recorded.items() if "rows" in found}
    if given.draft:
        print(bench_page.summary_table(recorded))
        return 0
    (DOCS / "bench.md").write_text(bench_page.page(recorded), encoding="utf-8")
    if recorded.get("scaling", {}).get("figures", {}).get("seconds"):
        scaling_page.write(recorded["scaling"], DOCS)
    readme_figures.write(recorded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
