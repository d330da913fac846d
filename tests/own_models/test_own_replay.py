"""Whole fits on neighbouring tables: one unit moves every noised sum by no more than its spec says, and nothing else.

A fit on a table is recorded, and its neighbour is answered with the same noised sums. What leaves must then be the
same to the last bit: whatever differed would have been read from rows beside the noise.
"""

import numpy as np
import pytest

from sordino import Relation, fit
from sordino.auditing.replay.port import Recorder
from sordino.core.gaussian import largest_mu
from sordino.core.spec import ColumnUnit, Unit
from sordino.fitting.custom_methods import CUSTOM_METHODS, CustomProblem
from sordino.fitting.problem import Sources
from sordino.mechanisms.variational.natural import Sizes
from sordino.models.custom.base import pack, read_layout
from sordino.models.custom.numpyro_program import NumPyroProgram
from tests.own_models.test_own_gradients import regression

UNITS, MOST = 600, 3
GENERATOR = np.random.default_rng(1)


def tables(relation, rows):
    """A table, and one in which a unit is another one, far off and with more records, or is missing."""
    person = np.repeat(np.arange(UNITS), rows)
    x = GENERATOR.normal(size=(len(person), 2))
    one = {"x": x, "y": x @ [1.0, -1.0] + GENERATOR.normal(size=len(person))}
    layout = read_layout(one, rows)
    gone = person == 17
    other = {name: values[~gone] for name, values in one.items()}
    left = person[~gone]
    if relation is Relation.REPLACE_ONE:
        other = {"x": np.vstack([other["x"], np.full((7, 2), -40.0)]), "y": np.append(other["y"], np.full(7, 300.0))}
        left = np.append(left, np.full(7, 17))
    _, codes = np.unique(left, return_inverse=True)
    return layout, pack(layout, one, person), pack(layout, other, codes)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("method", "options", "rows"),
    [
        ("natural", {}, 1),
        ("natural", {}, MOST),
        ("variational", {"guide": "diagonal", "rounds": 6}, MOST),
        ("rounds", {"rounds": 6}, 1),
    ],
)
def test_a_unit_moves_noised_sums_as_far_as_stated_and_nothing_else(method, options, rows, relation):
    assert fit is not None  # its module registers the methods
    layout, one, other = tables(relation, rows)
    model = NumPyroProgram(regression, layout)
    unit = Unit.RECORD if rows == 1 else ColumnUnit("person", rows)
    sizes = Sizes(UNITS, model.size, largest_mu(4.0, 1e-6), relation, 1e-6, unit)
    wanted, chosen = CustomProblem(model, sizes, 4.0, {"draws": 5, **options}), CUSTOM_METHODS[method]
    spec = chosen.plan(wanted)

    def on(table):
        def run(sources):
            asked = []

            def fresh():
                asked.append(sources())
                return asked[-1]

            found = chosen.run(wanted, spec, table, Sources(None, replayed=fresh), lambda _: None)
            assert len(asked) == len(spec.algorithm.parts)  # no noise serves two parts
            return {"draws": found.draws, **found.settings, **found.arrays}

        return run

    recorder = Recorder()
    recording = recorder.record(on(one), seed=3)
    replayed = recorder.replay(recording, on(other))
    assert not replayed.faults
    parts = [part.algorithm for part in spec.algorithm.parts]
    stated = [(part.sensitivity(relation), noise) for part in parts for noise in part.sum_noise]
    assert len(recording.calls) == len(stated)
    spent, reached = 0.0, 0.0
    for (first, _), (second, _), (most, noise) in zip(recording.calls, replayed.calls, stated, strict=True):
        moved = float(np.linalg.norm(first.statistic - second.statistic))
        np.testing.assert_allclose(first.scale, noise, rtol=1e-6)
        assert moved <= most
        reached = max(reached, moved / most)
        spent += (moved / noise) ** 2
    assert spent <= sizes.mu**2
    assert reached > 0.5  # the other unit is one that matters
    for name, value in recording.left.items():
        np.testing.assert_array_equal(np.asarray(replayed.left[name]), np.asarray(value), err_msg=name)
