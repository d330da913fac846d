"""Runs whose bounds were several times too large: what is certified now beside what was known to be reachable.

    python bench/empty_cells.py

Each row names a theorem, because runs with m = M have a smaller bound still; delta is 1e-5. Exits with 1 where a
certified epsilon is above 1.1 times the reachable one.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.bound import Bound
from sordino.core.spec import Spec, read_spec

DELTA, ALLOWED = 1e-5, 1.1
SPECS = Path(__file__).parents[1] / "examples" / "specs"


@dataclass(frozen=True)
class Row:
    """A run, the theorem that answers, and two numbers: before, and reachable."""

    name: str
    spec: Spec
    theorem: str
    before: float
    reachable: float

    def certified(self) -> float:
        """The epsilon that the theorem certifies."""
        answer = evaluate(theorem_named(self.theorem), self.spec)
        if not isinstance(answer, Bound):
            raise SystemExit(f"{self.name}: {self.theorem} {answer.reason}")
        return answer.guarantee.epsilon(DELTA)


def chain(scheme: str, steps: int, ratio: float, contraction: float = 0.9, **changes: Any) -> Spec:
    """Linear losses with weight decay, noise 1, n = 1000, b = 10: two gradients differ by `ratio` noises of a step."""
    decay = {"strong_convexity": 1.0 - contraction, "smoothness": 1.0 - contraction}
    algorithm = {"kind": "noisy-gradient", "steps": steps, "step_size": 1.0}
    algorithm |= {"noise": {"kind": "gaussian", "scale": 1.0}, "batch": {"scheme": scheme, "size": 10}}
    problem = {"n": 1000, "dim": 1, "gradient_sensitivity": 10 * ratio, **decay, "regulariser": decay}
    run = {"algorithm": algorithm, "problem": problem, "relation": "replace-one", "view": "all-iterates"}
    return Spec.from_dict(run | {"delta": DELTA}).with_values(changes)


def rows() -> Iterator[Row]:
    """The table, in the order of the list of missing cells."""
    kept = {"algorithm.keep": {"burn_in": 1999, "thin": 2000}}
    reshuffled = chain("reshuffled", 20_000, 0.5, 0.9, **kept)
    yield Row("kept draws, reshuffled", reshuffled, "composition.kept-random", 54.4, 2.07)
    yield Row("the same, m = M", reshuffled, "shifted.affine", 54.4, 0.93)
    fresh = chain("without-replacement", 20_000, 0.5, 0.9, **kept)
    yield Row("kept draws, without replacement", fresh, "composition.kept-random", 3.80, 0.404)
    for relation, before, reachable in (("replace-one", 2.94, 0.093), ("add-remove", 1.39, 0.047)):
        changes = {"relation": relation, "problem.gradient_bound": 2.5, "view": "last-iterate"}
        last = chain("poisson", 20_000, 0.5, **changes)
        yield Row(f"last iterate, Poisson, {relation}", last, "shifted.random-participation", before, reachable)
    average = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "gaussian", "scale": 1.0}}
    mean = chain("without-replacement", 10_000, 0.2, average=average, view="average")
    yield Row("average, without replacement", mean, "average.random-batches", 0.794, 0.061)
    single = read_spec(SPECS / "shuffled-single-records.json")
    for ratio, scale, before, reachable in ((0.5, 0.4, 1.99, 0.10), (0.25, 0.8, 0.93, 0.026)):
        one = single.with_values({"algorithm.noise.scale": scale})
        yield Row(f"shuffled, single records, kappa {ratio}", one, "composition.clones", before, reachable)
    bounded = read_spec(SPECS / "posterior-bounded.json")
    for lipschitz, draws, before, reachable in ((1.0, 10, 10.0, 7.1), (0.1, 100, 4.3, 2.0), (0.02, 2500, 4.4, 2.0)):
        potential = {"kind": "bounded", "lipschitz": lipschitz, "diameter": 1.0}
        drawn = bounded.with_values({"algorithm.potential": potential, "algorithm.draws": draws})
        yield Row(f"bounded range, {lipschitz} x {draws}", drawn, "posterior.bounded-range", before, reachable)
    proposed = read_spec(SPECS / "propose-test-sample.json")
    stage = float(proposed.to_dict()["algorithm"]["epsilon"])
    named = proposed.with_values({"relation": "replace-one"})
    yield Row("propose-test-sample, replace-one", named, "posterior.propose-test-sample", 5 * stage, 4 * stage)
    far = chain("without-replacement", 60, 3.6, contraction=0.999, view="last-iterate")
    yield Row("last iterate, without replacement, m = M", far, "shifted.affine", 20.9, 7.05)


def main() -> int:
    """Print the table; how many rows are above what is allowed."""
    above = 0
    sys.stdout.write(
        f"{'run':45} {'theorem':32} {'before':>8} {'reachable':>9} {'certified':>9} {'ratio':>6} seconds\n"
    )
    for row in rows():
        start = time.process_time()
        found = row.certified()
        above += found > ALLOWED * row.reachable
        figures = f"{row.before:8.4g} {row.reachable:9.4g} {found:9.4g} {found / row.reachable:6.3f}"
        sys.stdout.write(f"{row.name:45} {row.theorem:32} {figures} {time.process_time() - start:7.2f}\n")
        sys.stdout.flush()
    return 1 if above else 0


if __name__ == "__main__":
    raise SystemExit(main())
