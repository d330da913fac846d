"""Every measurement, one after another: `make bench`. Results as JSON and Markdown under bench/results.

python bench/run.py [--without-peers]
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MEASUREMENTS = ("accounting", "chains", "operations", "message_passing", "fleet")


def main() -> int:
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    failed = []
    for name in MEASUREMENTS:
        print(f"## {name}\n", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), *sys.argv[1:]]
        with (results / f"{name}.md").open("w", encoding="utf-8") as file:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for line in process.stdout or ():
                print(line, end="", flush=True)
                file.write(line)
        if process.wait() != 0:
            failed.append(name)
        print()
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
