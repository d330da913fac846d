"""A choice among models: its law by brute force, what one record moves by replay, and one charge before any row."""

import json
import math

import numpy as np
import pytest
from scipy import integrate, stats

from sordino import InputError, Ledger, LedgerRefusal, Relation, read_release
from sordino.accounting.evaluate import explain
from sordino.auditing.replay.port import Recorder
from sordino.cli import main
from sordino.core.spec.document import NegativeBinomialTrials
from sordino.data import declared_lines, schema_to_text
from sordino.explore import Candidate, choose
from sordino.explore.scoring import read_rows
from sordino.explore.selection import ChoicePlan, SelectionTrial, best_of_trials, choice_spec, largest_trial, spent
from sordino.fitting.charge import RowAccess
from sordino.fitting.problem import Sources
from sordino.fitting.tasks.base import TASKS
from sordino.noise.randomness import SeededRandomness

LINES = "records = {n}\na: -1..1\nb: -1..1\ny: yes/no [target]"
BUDGET = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one"}


def columns(n, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
    return {"a": a, "b": b, "y": np.where(rng.random(n) < 1 / (1 + np.exp(-3 * a)), "yes", "no")}


def schema(n):
    return declared_lines(LINES.format(n=n))


def test_the_best_of_trials_has_the_law_that_the_theorem_is_about():
    """Frequencies of the best loss against the law of the least of a geometric number; false alarms: 1 in 10^6."""
    stop, draws = 0.25, 12_000
    # Candidate 0 loses 0, 2 or 4, candidate 1 loses 1 or 3, each alike.
    lost = {0: (0, 2, 4), 1: (1, 3)}
    chances = np.array([1 / 6, 1 / 4, 1 / 6, 1 / 4, 1 / 6])
    above = 1.0 - np.concatenate([[0.0], np.cumsum(chances)])  # P(one trial loses at least k)
    least = stop * above / (1.0 - (1.0 - stop) * above)  # P(the best loses at least k), by the generating function
    rng, counts = np.random.default_rng(3), np.zeros(5)
    trials = 0

    def trial(place):
        nonlocal trials
        trials += 1
        return SelectionTrial(float(rng.choice(lost[place])), (place,), place)

    for seed in range(draws):
        counts[int(best_of_trials(trial, 2, stop, SeededRandomness(seed)).loss)] += 1
    expected = draws * -np.diff(least)
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    assert abs(trials / draws - 1 / stop) < 4.9 * math.sqrt((1 - stop) / stop**2 / draws)


def test_equal_losses_are_told_apart_by_what_is_told_and_not_by_who_came_first():
    for seed in range(20):
        found = best_of_trials(lambda place: SelectionTrial(1.0, (place,), place), 3, 0.02, SeededRandomness(seed))
        assert found.output == 0


@pytest.mark.parametrize("expected", [2.0, 6.0, 30.0])
def test_no_exact_law_of_the_best_noised_number_exceeds_the_certificate(expected):
    """One number with Gaussian noise, chosen as the least of a geometric number of trials, by quadrature."""
    trials = NegativeBinomialTrials(shape=1.0, stop=1.0 / expected)
    delta = 1e-5
    mu = largest_trial(1.0, delta, schema(100), Relation.REPLACE_ONE, trials)
    certified = explain(choice_spec(mu, schema(100), Relation.REPLACE_ONE, delta, trials, 2), delta).epsilon
    assert 0.98 < certified <= 1.0
    g = trials.stop

    def density(x, mean):
        above = stats.norm.sf(x - mean)
        return g / (1.0 - (1.0 - g) * above) ** 2 * stats.norm.pdf(x - mean)

    for one, other in ((0.0, mu), (mu, 0.0)):
        lost, _ = integrate.quad(
            lambda x, one=one, other=other: max(density(x, one) - math.exp(certified) * density(x, other), 0.0),
            -12,
            12,
            limit=400,
        )
        assert lost <= delta * (1 + 1e-6)


@pytest.mark.parametrize("relation", list(Relation))
def test_replay_moves_no_trial_beyond_what_the_certificate_counts(relation):
    n, declared = 400, schema(400)
    data = columns(n)
    named = [Candidate("a", "y ~ a"), Candidate("both", "y ~ a + b")]
    plan = ChoicePlan.of(TASKS["classification"], declared, named, data, 8.0, 1e-5, relation, 4.0)
    multiplier = plan.explanation.spec.algorithm.base.algorithm.relative_noise(relation)[0]
    reached = 0.0
    for seed, row in enumerate(({"a": 1.0, "b": 1.0, "y": "no"}, {"a": -1.0, "b": 1.0, "y": "yes"})):
        left = {name: np.append(cells[:-1], row[name]) for name, cells in data.items()}
        far = {"a": -row["a"], "b": -1.0, "y": "no" if row["y"] == "yes" else "yes"}
        right = {name: np.append(cells[:-1], far[name]) for name, cells in data.items()}
        if relation is Relation.ADD_REMOVE:
            right = {name: cells[:-1] for name, cells in left.items()}
        recorder = Recorder()

        def run(table):
            rows = read_rows([declaration for declaration, _ in plan.plans], relation, table, RowAccess(None, None))

            def ran(sources):
                best = plan.ran(rows, Sources(None, sources))
                return {"loss": best.loss, "candidate": best.output[0]}

            return ran

        first = recorder.record(run(left), seed)
        second = recorder.replay(first, run(right))
        assert second.faults == ()
        total = 0.0
        for (call, _), (other, _) in zip(first.calls, second.calls, strict=True):
            moved = (call.statistic.astype(float) - other.statistic.astype(float)) * call.unit
            total += float(np.sum((moved / np.asarray(call.scale, float)) ** 2))
            if np.size(call.statistic) == 1 and np.allclose(call.scale, plan.score.deviation):
                reached = max(reached, math.sqrt(total) * multiplier)
                total = 0.0
        assert total == 0.0
    assert 0.3 < reached <= 1.0 + 1e-9


def test_the_certificate_counts_fit_and_score_of_the_dearest_candidate():
    declared, data = schema(5000), columns(5000)
    named = [Candidate("a", "y ~ a"), Candidate("both", "y ~ a + b")]
    plan = ChoicePlan.of(TASKS["classification"], declared, named, data, 2.0, 1e-6, Relation.REPLACE_ONE, 6.0)
    base = plan.explanation.spec.algorithm.base.algorithm
    mu = 1.0 / base.relative_noise(Relation.REPLACE_ONE)[0]
    for _, one in plan.plans:
        together = math.hypot(spent(one.spec, Relation.REPLACE_ONE), 1.0 / plan.score.deviation)
        assert together <= mu
        assert together == pytest.approx(mu, rel=1e-3)
    assert explain(plan.explanation.spec, 1e-6).epsilon <= 2.0
    # All trials told, or their number told, would cost more: the certificate is that of a secret number.
    assert plan.explanation.spec.algorithm.trials.mean == pytest.approx(6.0, rel=1e-6)


def test_the_better_model_is_chosen_and_its_release_is_read_like_any_other(tmp_path, capsys):
    data = columns(5000)
    found = choose("logistic", data, ["y ~ b", "y ~ a"], schema=schema(5000), trials=8, random_state=1, **BUDGET)
    assert found.name == "y ~ a"
    assert 0.0 < found.loss < 0.2
    assert found.release.bound.theorem == "selection.repeated"
    assert found.release.epsilon <= 2.0
    assert not found.release.private
    assert "do not count the choice" in found.release.cautions[0]
    with (tmp_path / "rows.csv").open("w") as file:
        file.write("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in zip(*data.values(), strict=True)))
    (tmp_path / "schema.json").write_text(schema_to_text(schema(5000)))
    ledger = Ledger.open(tmp_path / "book", dataset="t", relation="replace-one", epsilon=3.0, delta=1e-5)
    asked = ["--schema", str(tmp_path / "schema.json"), "--epsilon", "2", "--delta", "1e-6"]
    asked += ["--relation", "replace-one", "--trials", "3", "--seed", "4"]
    where = [str(tmp_path / "rows.csv"), *asked, "--ledger", str(tmp_path / "book")]
    both = ["--candidate", "y ~ b", "--candidate", "y ~ a"]
    assert main(["explore", "choose", "logistic", *where, *both, "--out", str(tmp_path / "made"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["candidates"] == ["y ~ b", "y ~ a"]
    assert said["ledger"]["entry"] == 1
    assert len(ledger.entries()) == 1
    assert main(["show", str(tmp_path / "made")]) == 0
    assert "Chosen from 2 candidates" in capsys.readouterr().out
    assert read_release(tmp_path / "made").settings["chosen"]["candidate"] == said["candidate"]
    assert main(["ledger", "verify", str(tmp_path / "book")]) == 0
    # A second one does not fit: refused with exit code 3, and nothing is spent or written.
    assert main(["explore", "choose", "logistic", *where, *both, "--out", str(tmp_path / "again")]) == 3
    assert len(ledger.entries()) == 1
    assert not (tmp_path / "again").exists()


def test_the_ledger_is_debited_before_a_row_is_read(tmp_path):
    ledger = Ledger.open(tmp_path / "book", dataset="t", relation="replace-one", epsilon=3.0, delta=1e-5)
    wrong = columns(5000) | {"a": np.array(["?"] * 5000)}
    with pytest.raises(InputError, match="The ledger was debited before anything was computed"):
        choose("logistic", wrong, ["y ~ b", "y ~ a"], schema=schema(5000), ledger=ledger, random_state=1, **BUDGET)
    assert len(ledger.entries()) == 1
    with pytest.raises(LedgerRefusal):
        choose("logistic", wrong, ["y ~ b", "y ~ a"], schema=schema(5000), ledger=ledger, random_state=1, **BUDGET)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"candidates": ["y ~ a"]}, "the number of candidates"),
        ({"candidates": ["y ~ a", "y ~ a"]}, "twice"),
        ({"candidates": ["y ~ a", "y ~ c"]}, "names of declared columns"),
        ({"candidates": ["y ~ a", "a ~ b"]}, "with the target 'y'"),
        ({"candidates": "y ~ a"}, "Candidates must be a list"),
        ({"model": "cox"}, "model"),
        ({"epsilon": 1e-4}, "too small for|that a choice can keep"),
        ({"trials": 1.0}, "trials"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused_before_anything_is_spent(tmp_path, given, words):
    ledger = Ledger.open(tmp_path / "book", dataset="t", relation="replace-one", epsilon=3.0, delta=1e-5)
    asked = {"model": "logistic", "candidates": ["y ~ a", "y ~ b"], **BUDGET} | given
    with pytest.raises(InputError, match=words):
        choose(asked.pop("model"), columns(5000), asked.pop("candidates"), schema=schema(5000), ledger=ledger, **asked)
    assert ledger.entries() == ()
