"""Writes tests/golden/releases.json, or says which seeded releases no longer have the same bytes.

python -m tests.golden.record            record every case from the code as it is
python -m tests.golden.record --check    compare every case byte for byte
"""

import argparse
import json
import sys
import time
from pathlib import Path

from sordino.auditing.replay import Recorder
from tests.golden.cases import cases, run_case

TABLE = Path(__file__).with_name("releases.json")


def main() -> None:
    """Record, or compare and exit with 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", help="words that the name of a case must contain")
    given = parser.parse_args()
    table = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    recorder, different = Recorder(), []
    for name in cases():
        if not all(word in name for word in given.names):
            continue
        start = time.process_time()
        now = run_case(name, recorder)
        took = time.process_time() - start
        if given.check:
            wrong = [key for key in ("calls", "left") if table.get(name, {}).get(key) != now[key]]
            different += [f"{name}: {', '.join(wrong)}"] * bool(wrong)
            sys.stdout.write(f"{'differs' if wrong else 'same':8} {took:6.1f} s  {name}\n")
        else:
            table[name] = now
            sys.stdout.write(f"recorded {took:6.1f} s  {name}\n")
    if given.check:
        sys.stdout.write("\n".join(different or ["Every case has the same bytes."]) + "\n")
        sys.exit(bool(different))
    rows = (f"{json.dumps(name)}: {json.dumps(table[name], sort_keys=True)}" for name in sorted(table))
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
