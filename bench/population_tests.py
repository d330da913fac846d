"""How often tests of a look reject where nothing is to be found, and how often their intervals hold the truth.

    python bench/population_tests.py [--designs 300] [--tables 200] [--first SEED] [--record PAGE]

Every design is drawn with a fresh seed: 20 to 5,000 records, two to five groups of which one may be rare, epsilon from
.1 to 20, both relations, and numbers that are even, skewed, two-valued, rare or far inside their bounds. Tables of a
design are drawn again with fresh noise. A test at 5 % may reject 5 % of them. The exit code is 1 where it rejects more
than 6 % of all tables or 16 % of one design's, or where intervals hold less than 93 %.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from sordino.core.bound import Relation
from sordino.data import declared_lines, from_arrays
from sordino.explore.looks import LookPlan, sums_in_memory
from sordino.fitting.problem import Sources
from sordino.mechanisms.statistics.parse_questions import parsed
from sordino.mechanisms.statistics.questions import Rows

LEVEL = 0.95
WORDS = "abcde"
SHAPES = {
    "uniform": lambda rng, n: rng.uniform(0, 100, n),
    "normal": lambda rng, n: rng.normal(50, 15, n).clip(0, 100),
    "skewed": lambda rng, n: rng.exponential(12, n).clip(0, 100),
    "very skewed": lambda rng, n: rng.lognormal(0.5, 1.3, n).clip(0, 100),
    "two values": lambda rng, n: 100.0 * (rng.random(n) < 0.5),
    "rare": lambda rng, n: 100.0 * (rng.random(n) < 0.04),
    "narrow": lambda rng, n: rng.normal(20, 1, n).clip(0, 100),
    "spikes": lambda rng, n: np.where(rng.random(n) < 0.02, 100.0, rng.uniform(0, 5, n)),
}
MEANS = {name: float(np.mean(make(np.random.default_rng(0), 4_000_000))) for name, make in SHAPES.items()}
QUESTIONS = {
    "means": "test: x by g",
    "table": "test: w, g",
    "correlation": "test: x, z",
    "log-rank": "survival: days, died by g [bins=12]",
}


def design(seed):
    """A table maker whose groups are alike in everything, and what is public of it."""
    rng = np.random.default_rng(seed)
    records = int(np.exp(rng.uniform(np.log(20), np.log(5000))))
    groups, words = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    share = rng.dirichlet(np.full(groups, rng.choice([0.5, 2.0, 50.0])))
    cells = rng.dirichlet(np.full(words, rng.choice([0.5, 2.0, 50.0])))
    shapes = rng.choice(list(SHAPES), 2)
    epsilon = float(np.exp(rng.uniform(np.log(0.1), np.log(20))))
    hazard, leaving = 10.0 ** rng.uniform(-3.0, -1.3), 10.0 ** rng.uniform(-3.5, -1.5, groups)
    rough = rng.uniform(0.5, 2.0)

    def drawn(rng):
        g = rng.choice(groups, records, p=share)
        time = rng.exponential(1.0, records) ** (1.0 / rough) / hazard
        censored = np.minimum(rng.exponential(1.0, records) / leaving[g], 100.0)
        return {
            "g": np.array(list(WORDS))[g],
            "w": np.array(list(WORDS))[rng.choice(words, records, p=cells)],
            "x": SHAPES[shapes[0]](rng, records),
            "z": SHAPES[shapes[1]](rng, records),
            "days": np.minimum(time, censored),
            "died": np.where(time <= censored, "yes", "no"),
        }

    lines = (
        f"records = {records}\ng: {'|'.join(WORDS[:groups])}\nw: {'|'.join(WORDS[:words])}\nx: 0..100\nz: 0..100\n"
        "days: 0..100\ndied: yes/no"
    )
    survival = lambda days: np.exp(-((days * hazard) ** rough))  # noqa: E731
    facts = {"records": records, "epsilon": epsilon, "least": float(share.min()), "shape": str(shapes[0])}
    relation = list(Relation)[seed % 2]
    return declared_lines(lines), drawn, epsilon, relation, MEANS[shapes[0]], survival, facts


def measure(seed, tables, questions=QUESTIONS):
    """P-values of the tables of one design by question, and whether their intervals held the truth."""
    declared, drawn, epsilon, relation, mean, survival, facts = design(seed)
    names = [column.name for column in declared.declared_columns()]
    plans = {
        name: LookPlan.of(parsed([text], declared, names), declared, epsilon, 1e-5, relation)
        for name, text in questions.items()
    }
    found, held = defaultdict(list), defaultdict(list)
    for table in range(tables):
        rows = Rows(from_arrays(drawn(np.random.default_rng([seed, table]))), declared)
        for name, plan in plans.items():
            ((_, answers),) = plan.answered(sums_in_memory(rows), Sources(10_000 * table + seed), LEVEL)
            for row in answers:
                if row.name.startswith("p-value"):
                    found[name].append(row.value)
                elif row.name.startswith("difference"):
                    held["difference of means"].append(row.low <= 0.0 <= row.high)
                elif row.name.startswith("mean, "):
                    held["mean of a group"].append(row.low <= mean <= row.high)
                elif name == "log-rank":
                    truth = survival(float(row.name.split(": ")[1]))
                    held["survival"].append(row.low <= truth <= row.high)
    return found, held, facts


LINES = "records = {}\ng: a|b\nw: a|b\nx: 0..100\nz: 0..100\ndays: 0..100\ndied: yes/no"
NAMES = ("g", "w", "x", "z", "days", "died")


def p_values(text, epsilon, repeats, effect=0.0, records=1000, relation=Relation.REPLACE_ONE):
    """P-values of fresh tables of two groups, with or without an effect; None where the look says nothing."""
    declared = declared_lines(LINES.format(records))
    plan = LookPlan.of(parsed([text], declared, NAMES), declared, epsilon, 1e-5, relation)
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng([17, seed])
        second = rng.random(records) < 0.3
        days = rng.exponential(60.0 / (1.0 + 2.0 * effect * second))
        x = np.clip(rng.exponential(20, records) + 20.0 * effect * second, 0, 100)
        columns = {
            "g": np.where(second, "b", "a"),
            "w": np.where(rng.random(records) < 0.4 + 0.3 * effect * second, "b", "a"),
            "x": x,
            "z": np.clip(50 + effect * (x - 40) + rng.normal(0, 15, records), 0, 100),
            "days": np.minimum(days, 100),
            "died": np.where(days < 100, "yes", "no"),
        }
        sums = sums_in_memory(Rows(from_arrays(columns), declared))
        ((_, answers),) = plan.answered(sums, Sources(seed), 0.95)
        found.append(next((row.value for row in answers if row.name.startswith("p-value")), None))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--designs", type=int, default=300)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--first", type=int, default=1_000_000)
    parser.add_argument("--only", choices=[*QUESTIONS], help="one of the tests")
    parser.add_argument("--record", type=Path, help="write the figures here")
    given = parser.parse_args()
    questions = QUESTIONS if given.only is None else {given.only: QUESTIONS[given.only]}
    sizes, rates, refused, worst = defaultdict(list), defaultdict(list), defaultdict(int), []
    for seed in range(given.first, given.first + given.designs):
        found, held, facts = measure(seed, given.tables, questions)
        for name in questions:
            refused[name] += given.tables - len(found[name])
            if len(found[name]) >= given.tables // 2:
                sizes[name].append((float(np.mean(np.array(found[name]) <= 0.05)), len(found[name])))
                worst.append((sizes[name][-1][0], name, seed, facts))
        for name, hits in held.items():
            if len(hits) >= given.tables // 2:
                rates[name].append((float(np.mean(hits)), len(hits)))
    whole = given.designs * given.tables
    lines = [
        "| test | designs | tables refused | size at 5 % | designs above 8 % | largest |",
        "| --- |" + " --- |" * 5,
    ]
    for name in questions:
        each = np.array([rate for rate, _ in sizes[name]])
        mean = np.average(each, weights=[many for _, many in sizes[name]])
        lines.append(
            f"| {name} | {len(each)} | {100 * refused[name] / whole:.0f} % | {100 * mean:.1f} % | "
            f"{np.sum(each > 0.08)} | {100 * each.max():.1f} % |"
        )
    lines += ["", "| test | effects found at 5 %, 1,000 records, epsilon 1, 3 and 9 |", "| --- | --- |"]
    for name, text in questions.items():
        power = [np.mean([p is not None and p < 0.05 for p in p_values(text, e, 50, 1.0)]) for e in (1.0, 3.0, 9.0)]
        lines.append(f"| {name} | {', '.join(f'{100 * one:.0f} %' for one in power)} |")
    lines += ["", "| 95 % interval | designs | held | designs below 90 % | lowest |", "| --- |" + " --- |" * 4]
    for name, each in rates.items():
        values = np.array([rate for rate, _ in each])
        mean = np.average(values, weights=[many for _, many in each])
        lines.append(
            f"| {name} | {len(values)} | {100 * mean:.1f} % | {np.sum(values < 0.9)} | {100 * values.min():.1f} % |"
        )
    text = "\n".join(lines)
    sys.stdout.write(text + "\n\n" + "\n".join(map(str, sorted(worst, key=lambda one: -one[0])[:8])) + "\n")
    if given.record:
        given.record.write_text(
            "# Tests of a look\n\nSize and coverage of `test:` and `survival:` on random designs under which nothing "
            f"is to be found: `python bench/population_tests.py --designs {given.designs} --tables {given.tables} "
            f"--first {given.first}`. Designs count where at least half of the tables were answered.\n\n{text}\n"
        )
    every = [np.array(each) for each in sizes.values()]
    sound = all(len(each) > 10 and np.average(each[:, 0], weights=each[:, 1]) < 0.06 for each in every)
    held = all(
        np.average([rate for rate, _ in each], weights=[many for _, many in each]) > 0.93 for each in rates.values()
    )
    return 0 if sound and held and all(each[:, 0].max() < 0.16 for each in every) else 1


if __name__ == "__main__":
    raise SystemExit(main())
