"""Sums of several sites add up to those of the joined table, to the last bit, and so does the release."""

import math
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sordino
from sordino import InputError, Relation
from sordino.data.sources.registry import parts_of
from sordino.engines.local import Streamed
from sordino.engines.totals import Totals
from sordino.mechanisms.regression.release import release_sums
from sordino.mechanisms.regression.rows import InMemory
from sordino.noise.port import Summed, from_bytes, to_bytes, wide
from sordino.noise.randomness import SeededRandomness
from tests.engines.tables import COLUMNS, ROWS, arrays, asked_in_memory, planned, table

SITES = 3


def where(family, unit):
    """The site of every row; a person is at one site."""
    return (arrays(family)["who"].astype(int) if unit else np.arange(ROWS)) % SITES


def answers(family, relation, unit, folder):
    """Three sites: two add up rows in memory, the last reads a Parquet file."""
    made, encoded = planned(family, relation, unit=unit)
    rows, place = arrays(family), where(family, unit)
    pq.write_table(table(family).filter(place == SITES - 1), folder / "site.parquet")
    memory = [
        InMemory(made, encoded.given({name: values[place == site] for name, values in rows.items()}))
        for site in range(SITES - 1)
    ]
    parts = parts_of(folder / "site.parquet")
    return made, [*memory, Totals(Streamed(patience=math.inf), parts, encoded, COLUMNS, together=unit)]


def added(sites):
    """A coordinator: asks every site and adds what comes back as bytes."""

    def total(asked):
        found = [site(asked) for site in sites]
        sums = wide(asked.numbers)
        for one in found:
            sums += from_bytes(to_bytes(one.sums), asked.numbers)
        return Summed(sums, asked.exponent, sum(one.units for one in found))

    return total


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("family", "relation", "unit"),
    [
        ("linear", Relation.REPLACE_ONE, True),
        ("logistic", Relation.ADD_REMOVE, False),
        ("poisson", Relation.REPLACE_ONE, False),
        ("cox", Relation.ADD_REMOVE, False),
    ],
)
def test_sites_add_up_to_the_joined_table(tmp_path, family, relation, unit):
    _, sites = answers(family, relation, unit, tmp_path)
    for orders in (sites, sites[::-1]):
        total = added(orders)
        for asked, summed in asked_in_memory(family, relation, unit):
            found = total(asked)
            assert found.sums.tolist() == summed.sums.tolist(), asked.name
            assert (found.exponent, found.units) == (summed.exponent, summed.units)


def test_the_release_of_sites_is_that_of_the_joined_table(tmp_path):
    made, sites = answers("linear", Relation.REPLACE_ONE, True, tmp_path)
    _, encoded = planned("linear", Relation.REPLACE_ONE, unit=True)
    joined = release_sums(made, InMemory(made, encoded.given(arrays("linear"))), SeededRandomness(3)).sums
    together = release_sums(made, added(sites), SeededRandomness(3)).sums
    assert {name: sums.tobytes() for name, sums in together.items()} == {
        name: sums.tobytes() for name, sums in joined.items()
    }


def test_a_site_that_does_not_answer_is_noticed_where_the_number_of_units_is_public(tmp_path):
    made, sites = answers("logistic", Relation.REPLACE_ONE, False, tmp_path)
    with pytest.raises(InputError, match="number of units"):
        release_sums(made, added(sites[1:]), SeededRandomness(3))


def test_the_page_runs_as_written(capsys):
    """Its last lines compare the release of three sites with that of the joined table, bit for bit."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "sites.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(code, str(page), "exec"), {"__name__": "sites"})
    assert len(capsys.readouterr().out.split()) >= 3


def test_no_secret_is_shared_by_hand():
    """Sites send whole-number sums; who carries them keeps them secret, by a library for it."""
    texts = [path.read_text(encoding="utf-8") for path in Path(sordino.__file__).parent.rglob("*.py")]
    assert [text for text in texts if re.search(r"shamir|diffie|x25519|secret.shar", text, re.IGNORECASE)] == []
