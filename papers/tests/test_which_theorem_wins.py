"""On the published grid nothing that is valid is tighter than what `explain` answers."""

import csv
import math
from pathlib import Path

import pytest

from papers.framework.item import Options, VerdictKind, item_named
from papers.grid.answers import TIE, Answered, answered, grid, peer_epsilon, quick_grid
from papers.grid.runs import Described, PeerSteps
from sordino.accounting.evaluate import theorems
from sordino.core.spec import Spec


def check(one: Answered) -> None:
    """The tightest is no larger than any bound, and than the peer's by more than the tie."""
    epsilons = [bound.guarantee.epsilon(one.found.delta) for bound, _ in one.found.bounds]
    assert one.found.epsilon <= min(epsilons, default=math.inf)
    assert not one.peer_is_smaller, (one.run, one.peer, one.found.epsilon)
    assert one.peer is None or math.isfinite(one.found.epsilon)


def test_the_grid_has_at_least_500_different_runs():
    specs = {run.spec.to_json() for run in grid()}
    assert len(specs) == len(grid()) >= 500


def test_the_grid_covers_every_scheme_relation_view_and_noise():
    runs = grid()
    assert {run.scheme for run in runs if run.kind == "chain"} == {
        "full",
        "cyclic",
        "shuffle-once",
        "reshuffled",
        "without-replacement",
        "poisson",
    }
    assert {run.spec.relation.value for run in runs} == {"replace-one", "add-remove"}
    assert {"last-iterate", "all-iterates", "average", "one-sample"} <= {run.spec.view.value for run in runs}
    assert {"chain", "stable noise", "posterior draws", "rounds"} <= {run.kind for run in runs}


def test_the_quick_grid_is_a_fixed_sample_with_a_run_of_every_kind():
    assert quick_grid() == quick_grid()
    assert {run.kind.partition(",")[0] for run in quick_grid()} == {run.kind.partition(",")[0] for run in grid()}


def test_the_published_comparison_has_every_registered_theorem_and_every_run_of_the_grid():
    """The page is made from all theorems; one that is registered after it was made is missing here."""
    folder = Path(__file__).parents[2] / "papers" / "grid" / "which-theorem-wins"
    with (folder / "wins.csv").open(encoding="utf-8") as file:
        applied = {row["theorem"]: int(row["runs it applies to"]) for row in csv.DictReader(file)}
    assert set(applied) == {theorem.id for theorem in theorems()}
    assert all(applied.values())
    with (folder / "runs.csv").open(encoding="utf-8") as file:
        published = [(row["kind"], row["batches"], row["problem"]) for row in csv.DictReader(file)]
    assert published == [(run.kind, run.scheme, run.problem) for run in grid()]


@pytest.mark.slow
def test_nothing_is_tighter_on_the_quick_grid():
    outcome = item_named("which-theorem-wins").run(Options(quick=True, data_dir=None, seed=0))
    assert outcome.verdict.kind is VerdictKind.OWN
    runs = next(table for table in outcome.tables if table.name == "runs")
    assert len(runs.rows) == len(quick_grid())
    known = {theorem.id for theorem in theorems()}
    assert {row[10] for row in runs.rows} <= known | {None}


@pytest.mark.slow
def test_nothing_is_tighter_on_the_whole_grid():
    for one in answered(grid()):
        check(one)


def test_a_peer_below_the_certificate_would_be_seen():
    """The check can fail: the same run beside a peer that was told of half the noise effect."""
    run = next(run for run in grid() if run.scheme == "full" and run.spec.view == "all-iterates" and run.peer)
    assert run.peer is not None
    [honest] = answered([run])
    check(honest)
    told_less = PeerSteps(run.peer.mechanism, run.peer.ratio / 2, run.peer.rate, run.peer.uses)
    [cheated] = answered([Described(**{**vars(run), "peer": told_less})])
    assert cheated.peer_is_smaller
    with pytest.raises(AssertionError):
        check(cheated)


def test_the_peer_has_the_golden_value():
    """Poisson rate 0.01, multiplier 1, 1000 steps, delta 1e-5: 1.8282 add-remove, 2.8434 replace-one."""
    for mechanism, expected in (("poisson-add-remove", 1.8282), ("poisson-replace-one", 2.8434)):
        name, epsilon = peer_epsilon(PeerSteps(mechanism, 1.0, 0.01, 1000), 1e-5)
        assert name == "dp-accounting PLD"
        assert epsilon == pytest.approx(expected, rel=TIE)


def test_ties_name_the_plainest_theorem_first():
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": 1,
                "step_size": 0.1,
                "noise": {"kind": "gaussian", "scale": 0.002},
                "batch": {"scheme": "full"},
            },
            "problem": {
                "n": 1000,
                "dim": 1,
                "gradient_sensitivity": 2.0,
                "strong_convexity": 0.2,
                "smoothness": 1.2,
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    [one] = answered([Described("chain", "full", "-", "none", "-", 1, 1.0, spec)])
    assert one.winners[0] == "composition.gaussian"
    assert "shifted.full" in one.winners
