"""Every measurement, one after another, and the pages made of them: `make bench`, `make bench-full`.

    python bench/run.py [--full] [--only accounting,fit] [--missing] [--reuse] [--draft] [--patience 3]

First every peer is installed in an environment of its own under bench/envs. Then each area runs in a process of its
own; one that fails is tried once more, with twice the time, and then becomes a line that says why. Results:
bench/recorded/areas/*.json, bench/pages/bench.md, scaling.md and its figure. `--missing` goes on with a run that was
stopped: it leaves out areas that this very code has measured; `--reuse` writes the pages again from what was recorded;
`--draft` measures one round into bench/drafts, to see that everything runs, and leaves the recorded results
alone.
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
PAGES, RECORDED = HERE / "pages", HERE / "recorded" / "areas"
# Area, and the seconds after which it is given up, in the quick run; the full run has six times as many.
AREAS = {
    "accounting": 500,
    "chains": 600,
    "fleet": 350,
    "message_passing": 500,
    "utility": 600,
    "audit": 400,
    "fit": 150,
    "noise": 120,
    "install": 400,
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
    """Run one area and read what it wrote; an area that fails twice answers with the reason."""
    output = folder / f"{name}.json"
    begin = time.perf_counter()
    for patience in (1.0, 2.0):
        found = _tried(name, full, patience * limit, output)
        if not isinstance(found, str):
            return found
        print(f"  {name} could not be run: {found}", flush=True)
    reason = found
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


def _tried(name: str, full: bool, limit: float, output: Path) -> dict[str, Any] | str:
    """What an area found, or why it found nothing."""
    output.unlink(missing_ok=True)
    script = HERE / f"{SCRIPTS.get(name, name)}.py"
    command = [sys.executable, str(script), "--output", str(output), *(["--full"] if full else [])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
        process.communicate()
        return f"not finished after {limit:g} s"
    if process.returncode:
        return ([line for line in errors.splitlines() if line.strip()] or ["no message"])[-1][:200]
    try:
        return json.loads(output.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "it wrote nothing that can be read"


def measured(name: str, folder: Path, full: bool) -> bool:
    """Whether the code as it is now has measured an area, and could."""
    try:
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    same = found.get("code") == measured_code() and found.get("full") == full
    return same and "reason" not in found.get("figures", {}) and "changed" not in found["code"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--full", action="store_true", help="more sizes, more repetitions, and what is promised alone")
    parser.add_argument("--only", default="", help="areas, separated by commas")
    parser.add_argument("--missing", action="store_true", help="leave out areas that this very code has measured")
    parser.add_argument("--reuse", action="store_true", help="measure nothing; write the pages from recorded results")
    parser.add_argument("--draft", action="store_true", help="one round, into bench/drafts; no page is written")
    parser.add_argument("--patience", type=float, default=1.0, help="multiplies the time limits, for a busy machine")
    given = parser.parse_args()
    areas = AREAS | (ONLY_FULL if given.full else {})
    chosen = [name for name in given.only.split(",") if name] or list(areas)
    unknown = sorted(set(chosen) - set(areas))
    if unknown:
        parser.error(f"no area is called {', '.join(unknown)}; there are {', '.join(areas)}")
    folder = HERE / "drafts" if given.draft else RECORDED
    folder.mkdir(parents=True, exist_ok=True)
    if given.missing:
        chosen = [name for name in chosen if not measured(name, folder, given.full)]
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
    (PAGES / "bench.md").write_text(bench_page.page(recorded), encoding="utf-8")
    if recorded.get("scaling", {}).get("figures", {}).get("seconds"):
        scaling_page.write(recorded["scaling"], PAGES)
    readme_figures.write(recorded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
