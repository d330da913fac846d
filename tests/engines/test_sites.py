"""Sites give what the pooled table gives; masks hide each of them; dropouts are recovered or refused."""

import numpy as np
import pytest

from sordino.algorithm.engines import sites as protocol
from sordino.algorithm.engines.sites import Coordinator, Site, threshold
from sordino.algorithm.influence.asked import InMemory
from sordino.algorithm.influence.release import release_sums
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.algorithm.noise.wide_sums import WideSums
from sordino.core.bound import Relation
from sordino.core.validate import InputError
from tests.engines.tables import ROWS, arrays, asked_in_memory, planned

NAMES = ("Bergen", "Delft", "Graz", "Lyon", "Turku")


def site_rows(family, unit=False):
    """The pooled rows, divided among sites; a person is at one site."""
    rows = arrays(family)
    where = (rows["who"].astype(int) if unit else np.arange(ROWS)) % len(NAMES)
    return [{name: values[where == place] for name, values in rows.items()} for place in range(len(NAMES))]


def made_sites(family, relation, unit=False, kind=Site):
    made, encoded = planned(family, relation, unit=unit)
    return made, [
        kind(name, InMemory(made, encoded.given(rows)))
        for name, rows in zip(NAMES, site_rows(family, unit), strict=True)
    ]


@pytest.mark.parametrize(
    ("family", "unit"),
    [
        ("linear", True),
        pytest.param("logistic", False, marks=pytest.mark.slow),
        pytest.param("poisson", True, marks=pytest.mark.slow),
        pytest.param("cox", False, marks=pytest.mark.slow),
    ],
)
def test_five_sites_release_what_the_pooled_table_releases(family, unit):
    """Bit for bit, with the same noise, every answer of the fit."""
    made, sites = made_sites(family, Relation.REPLACE_ONE, unit)
    _, encoded = planned(family, Relation.REPLACE_ONE, unit=unit)
    pooled = release_sums(made, InMemory(made, encoded.given(arrays(family))), SeededRandomness(3)).sums
    joint = release_sums(made, Coordinator(sites), SeededRandomness(3)).sums
    assert pooled.keys() == joint.keys()
    assert all(pooled[name].tobytes() == joint[name].tobytes() for name in pooled)


class Lossy(Site):
    """Is lost at one of its calls."""

    fails_at = ""

    def _reached(self, call):
        if call == self.fails_at:
            raise TimeoutError

    def begin(self, number):
        self._reached("begin")
        return super().begin(number)

    def shared(self, keys):
        self._reached("shared")
        return super().shared(keys)

    def received(self, sealed):
        self._reached("received")
        return super().received(sealed)

    def masked(self, asked, scales=None):
        self._reached("masked")
        return super().masked(asked, scales)

    def revealed(self, answered):
        self._reached("revealed")
        return super().revealed(answered)


def _without(family, relation, gone):
    made, encoded = planned(family, relation, unit=False)
    kept = [rows for name, rows in zip(NAMES, site_rows(family), strict=True) if name not in gone]
    return InMemory(made, encoded.given({name: np.concatenate([one[name] for one in kept]) for name in kept[0]}))


@pytest.mark.parametrize("call", ["begin", "shared", "received", "masked"])
def test_the_sum_of_those_who_answered_is_recovered(call):
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation, kind=Lossy)
    sites[1].fails_at = sites[4].fails_at = call
    asked, _ = asked_in_memory(family, relation, False)[0]
    coordinator = Coordinator(sites)
    found = coordinator(asked)
    expected = _without(family, relation, ("Delft", "Turku"))(asked)
    assert (found.sums, found.units) == (expected.sums, expected.units)
    assert sorted(coordinator.lost) == ["Delft", "Turku"]


def test_a_site_that_is_lost_after_its_answer_counts_in_that_question():
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation, kind=Lossy)
    sites[2].fails_at = "revealed"
    asked, summed = asked_in_memory(family, relation, False)[0]
    assert Coordinator(sites)(asked).sums == summed.sums


def test_too_few_sites_unmask_nothing():
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation, kind=Lossy)
    for site in sites[:3]:
        site.fails_at = "masked"
    with pytest.raises(InputError, match="at least 3 of 5 sites, got 2"):
        Coordinator(sites)(asked_in_memory(family, relation, False)[0][0])


def test_a_lost_site_refuses_a_fit_under_replace_one():
    made, sites = made_sites("logistic", Relation.REPLACE_ONE, kind=Lossy)
    sites[0].fails_at = "masked"
    with pytest.raises(InputError, match=f"number of units to be {ROWS}"):
        release_sums(made, Coordinator(sites), SeededRandomness(3))


def begun(sites):
    number = b"0" * 16
    keys = {site.name: site.begin(number) for site in sites}
    sealed = {site.name: site.shared(keys) for site in sites}
    for site in sites:
        site.received(protocol._for(site.name, sealed))
    return keys, sealed


def test_a_site_answers_and_reveals_once_and_only_to_enough():
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation)
    asked, _ = asked_in_memory(family, relation, False)[0]
    begun(sites)
    sites[0].masked(asked)
    with pytest.raises(InputError, match="not answered yet"):
        sites[0].masked(asked)
    with pytest.raises(InputError, match="at least 3 of 5"):
        sites[0].revealed(NAMES[:2])
    shown = sites[0].revealed(NAMES[:3])
    assert not shown.keys.keys() & shown.masks.keys()  # never both secrets of one site
    with pytest.raises(InputError, match="asked once"):
        sites[0].revealed(NAMES[:4])
    begun(sites)
    with pytest.raises(InputError, match="not answered yet"):
        sites[0].masked(asked)  # the same question in another round is the same question


def test_a_site_without_the_masks_of_all_others_sends_nothing():
    """A coordinator that passes no shares on would be told a sum behind one mask, which the other sites reveal."""
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation)
    asked, _ = asked_in_memory(family, relation, False)[0]
    keys = {site.name: site.begin(b"2" * 16) for site in sites}
    sealed = {site.name: site.shared(keys) for site in sites}
    for some in ({}, {"Delft": sealed["Delft"]["Bergen"]}):
        sites[0].received(some)
        with pytest.raises(InputError, match="shares of every site"):
            sites[0].masked(asked)
    sites[0].received(protocol._for("Bergen", sealed))
    assert sites[0].masked(asked)


def test_names_that_no_site_has_do_not_count_as_answers():
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation)
    asked, _ = asked_in_memory(family, relation, False)[0]
    begun(sites)
    sites[0].masked(asked)
    with pytest.raises(InputError, match="nothing was revealed"):
        sites[0].revealed(["Bergen", "Nowhere", "Elsewhere"])


def test_shares_that_were_changed_on_the_way_are_refused():
    _, sites = made_sites("logistic", Relation.ADD_REMOVE)
    number = b"1" * 16
    keys = {site.name: site.begin(number) for site in sites}
    sealed = {site.name: site.shared(keys) for site in sites}
    texts = protocol._for("Bergen", sealed)
    texts["Graz"] = texts["Graz"][:40] + bytes([texts["Graz"][40] ^ 1]) + texts["Graz"][41:]
    with pytest.raises(InputError, match="changed ones"):
        sites[0].received(texts)
    # Nor are those that a site sent itself and that come back to it.
    with pytest.raises(InputError, match="changed ones"):
        sites[0].received({"Graz": sealed["Bergen"]["Graz"]})


def test_what_a_site_sends_looks_uniform_and_hides_its_sums():
    """False-alarm rate: bits of 6 answers; a count six standard deviations off has chance 2e-9."""
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation)
    asked, _ = asked_in_memory(family, relation, False)[0]
    texts = []
    for _ in range(6):
        begun(sites)
        sites[0]._questions.clear()
        texts.append(sites[0].masked(asked))
    bits = np.unpackbits(np.frombuffer(b"".join(texts), np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(len(bits))
    assert len(set(texts)) == 6


def test_pair_masks_alone_do_not_hide_a_site_whose_neighbours_collude_but_its_own_mask_does():
    """Without own masks the four others could take theirs off; with them a uniform mask stays."""
    family, relation = "logistic", Relation.ADD_REMOVE
    _, sites = made_sites(family, relation)
    asked, _ = asked_in_memory(family, relation, False)[0]
    keys, _ = begun(sites)
    seen = WideSums.from_bytes(sites[0].masked(asked))
    for other in sites[1:]:
        made = other._now()
        pair = protocol._pair(made.masks, keys["Bergen"].masks, made.number, "Bergen", other.name)
        seen.add_wide(protocol._mask(pair, len(seen)).negative())
    true = sites[0]._total(asked)
    assert WideSums(seen.high[:-1], seen.low[:-1]) != true.sums
    seen.add_wide(protocol._mask(sites[0]._now().own, len(seen)).negative())
    assert WideSums(seen.high[:-1], seen.low[:-1]) == true.sums


def test_fewer_shares_than_the_threshold_say_nothing():
    """Two of three shares of two secrets have the same law: here, any two shares fit every secret."""
    assert [threshold(n) for n in (2, 3, 4, 5)] == [2, 2, 3, 3]
    shares = protocol._divided(12345, 5, 3)
    points = dict(enumerate(shares, 1))
    assert protocol._joined(points, 3) == 12345
    assert protocol._joined({k: points[k] for k in (5, 2, 4)}, 3) == 12345
    with pytest.raises(InputError, match="at least 3"):
        protocol._joined({1: points[1], 4: points[4]}, 3)
    # For any other secret there is a third share that leads to it.
    assert protocol._joined({1: points[1], 4: points[4], 2: (points[2] + 1) % protocol._FIELD}, 3) != 12345


def test_the_group_is_the_published_one():
    """RFC 3526, section 3: 2^2048 - 2^1984 - 1 + 2^64 ([2^1918 pi] + 124476), a safe prime."""
    from mpmath import floor, mp, mpf, pi

    with mp.workprec(2300):
        expected = 2**2048 - 2**1984 - 1 + 2**64 * (int(floor(mpf(2) ** 1918 * pi)) + 124476)
    assert expected == protocol._PRIME
