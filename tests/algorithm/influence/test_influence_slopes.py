"""What noise leaves open about columns and slopes: stand-ins inside their bounds, drawn slopes, kept pages."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino import ArrayBounds, PrivateLinearRegression
from sordino.algorithm.influence import Declaration, plan, release
from sordino.algorithm.influence.readings import SCALE_EDGES, bins_of, read_scales
from sordino.algorithm.influence.slopes import _moved
from sordino.algorithm.influence.whitening import within_bounds
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.core.bound import Relation

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("spread", "kurtosis"), [(0.1, 3.0), (0.45, 2.32), (0.577, 1.8)])
def test_stand_in_numbers_become_flat_where_they_fill_their_bounds(spread: float, kurtosis: float) -> None:
    normal = np.random.default_rng(1).standard_normal((20_000, 2))
    rows = within_bounds(normal, np.array([spread, 9.0]), np.array([0]))
    assert (rows[:, 1] == normal[:, 1]).all()  # a 0/1 column is left alone
    assert abs(np.mean(rows[:, 0] ** 2) - 1.0) < 1e-9
    assert spread * np.abs(rows[:, 0]).max() < 1.01 + 0.02
    assert abs(np.mean(rows[:, 0] ** 4) - kurtosis) < 0.15


def test_columns_tell_together_how_far_a_table_uses_its_bounds() -> None:
    # Noise that hides one column's spread: five flat ones are read as wider than one among four narrow ones.
    g = np.random.default_rng(2)
    flat, narrow = g.uniform(-1, 1, 4000), 0.1 * g.standard_normal(4000)

    def counts(columns: list[np.ndarray]) -> np.ndarray:
        return np.array([np.bincount(bins_of(np.abs(one), SCALE_EDGES), minlength=12) for one in columns], float)

    together = read_scales(counts([flat] * 5), 4000, 1200.0)
    alone = read_scales(counts([flat, *[narrow] * 4]), 4000, 1200.0)
    assert together.values[0] > 1.2 * alone.values[0]
    assert 0.0 < together.common < 1.0
    # Without noise a column is read for itself.
    sharp = read_scales(counts([flat, *[narrow] * 4]), 4000, 1.0)
    assert abs(sharp.values[0] / 0.577 - 1.0) < 0.1
    assert abs(sharp.values[1] / 0.1 - 1.0) < 0.1
    assert sharp.common < 0.01


def test_drawn_slopes_are_positive_and_keep_their_mean() -> None:
    slope = np.diag([1.0, 0.8, 0.5])
    variances = np.full((3, 3), 0.1**2)
    found = np.concatenate([_moved(slope, variances, 0.1 * slope, np.random.default_rng(k)) for k in range(100)])
    assert np.linalg.eigvalsh(slope + found)[:, 0].min() > 0.0
    # 4,800 draws in pairs, seeds fixed: their mean is that of the slope.
    assert np.abs(np.diag(found.mean(axis=0)) / np.diag(slope)).max() < 0.02
    # And they are as spread as was said: a deviation of .14 each, of which tails change little.
    assert 0.1 < found[:, 0, 0].std() < 0.2


def test_slopes_that_were_read_below_zero_are_drawn_above_it() -> None:
    """Two columns that are nearly collinear: the slope of their difference was read as -.02, with an error of .05."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)
    slope = turn @ np.diag([1.0, -0.02]) @ turn.T
    drawn = slope + _moved(slope, np.full((2, 2), 0.05**2 / 2), 0.0 * slope, np.random.default_rng(1))
    across = np.einsum("kij,i,j->k", drawn, turn[:, 1], turn[:, 1])
    assert np.linalg.eigvalsh(drawn)[:, 0].min() > 0.0
    # As a normal number with that mean and error that is known to be positive: .034 on average, rarely above .1.
    assert 0.02 < across.mean() < 0.05
    assert np.mean(across < 0.02) > 0.2
    assert np.mean(across > 0.12) < 0.05


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_a_slope_beyond_declared_shapes_is_that_of_the_curvature(family: str) -> None:
    """Of numbers; a smaller distance is shrunk to what declared shapes say, as far as noise hides it."""
    g = np.random.default_rng(8)
    target = (-4.0, 4.0) if family == "linear" else None
    made = plan(family, Declaration((-1.0,) * 3, (1.0,) * 3, target=target), 20_000, Relation.REPLACE_ONE, 4.0, 1e-6)
    X, y = g.uniform(-1, 1, (20_000, 3)), (g.random(20_000) < 0.5).astype(float)
    evidence = release(made, X, y, SeededRandomness(1)).followed.evidence
    theta, covariance = evidence.centre()
    slope = evidence.local(theta, covariance).slopes[-4:] - evidence.local(theta, covariance).opened
    planned = evidence._released_slope(theta, slope)
    level, noise = float(np.mean(np.diag(slope))), 0.02 * float(np.mean(np.diag(slope)))
    for deviations, whole in ((2.0, False), (12.0, family == "linear")):
        far = np.zeros((4, 4))
        far[1, 2] = far[2, 1] = deviations * np.sqrt(evidence._open[1, 2] * level**2 + noise**2 / 2)
        evidence.add_curvature(planned + far, noise)
        found = evidence._opened(theta, slope)
        kept = found.mean[1, 2] / far[1, 2]
        assert bool(kept > 0.97) is whole
        assert kept > 0.5


def test_a_page_keeps_the_cells_that_were_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("drawn_tables", "coverage_page"):
        given = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
        assert given is not None
        assert given.loader is not None
        module = importlib.util.module_from_spec(given)
        # The page imports its tables by that name.
        monkeypatch.setitem(sys.modules, name, module)
        given.loader.exec_module(module)
    coverage = sys.modules["coverage_page"]
    before = (ROOT / "bench" / "pages" / "coverage.md").read_text()
    line = {"cell": "linear:uniform:500:1:replace-one", "seed": 3, "first": 0, "effects": 1.0, "tables": 20}
    line |= {"held": [10.0, 18.0, 19.0], "squares": [6.0, 17.0, 18.5], "square": 0.1, "score": 8.0, "width": 7.0}
    line |= {"shares": [2.0, 16.0, 2.0], "seconds": 1.0}
    one_same = frozenset({coverage.Cell.read("linear:uniform:500:4:replace-one")})
    after = coverage.page([line], before, same=one_same)
    assert [row.cell for row in coverage.recorded(after, one_same)[1.0] if not row.earlier] == list(one_same)
    marked = [text for text in after.splitlines() if text.startswith("| linear | uniform | 500 |") and "†" in text]
    assert len(marked) == 4  # of six, one was drawn and one is the same
    old, new = (coverage.recorded(one) for one in (before, after))
    assert {effects: len(rows) for effects, rows in old.items()} == {e: len(rows) for e, rows in new.items()}
    for one in old[1.0]:
        same = next(other for other in new[1.0] if other.cell == one.cell)
        drawn = str(one.cell) == line["cell"]
        assert same.tables == (20 if drawn else one.tables)
        assert same.again == (one.again and not drawn)
        assert drawn or (np.allclose(same.rates, one.rates) and same.score == one.score)
    assert "| linear | uniform | 500 | 1 | replace-one | 20 | 50.0 | 90.0 | 95.0 |" in after


@pytest.mark.parametrize("seed", [0, 2])
def test_targets_without_errors_are_fitted_though_slopes_vanish_far_from_them(seed: int) -> None:
    # Far from the truth all residuals are cut: the released curvature may not stand in for slopes that are 0 there.
    x = np.random.default_rng(seed).uniform(-1, 1, (2000, 2))
    model = PrivateLinearRegression(
        epsilon=1.0,
        delta=1e-6,
        relation="replace-one",
        schema=ArrayBounds(-1, 1, target=(-1, 1)),
        random_state=seed,
    )
    model.fit(x, x @ [0.5, -0.25])
    assert np.abs(model.coef_ - [0.5, -0.25]).max() < 0.01
