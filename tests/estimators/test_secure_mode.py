"""Without a seed the noise of a fit is secret: every source has a key of its own, whoever asks for the fit."""

import numpy as np
import pytest

from sordino.algorithm import Purpose, SecureRandomness
from sordino.core.bound import Relation
from sordino.fitting.problem import Sources
from tests.replay.estimator_cases import CASES, tables

# One of each method; the whole numbers of a constant of two classes need more fits until one differs from the first.
FITS = {case.method: (case, 2) for case in reversed(CASES)}
FITS["constant of two classes"] = next((case, 20) for case in CASES if case.name == "logistic-constant-2")


@pytest.mark.parametrize("name", FITS)
def test_two_secure_fits_to_the_same_rows_share_no_noise(name):
    """A fixed key would make all fits alike. False alarms: below 2^-40, and (0.25)^19 for the whole numbers."""
    case, fits = FITS[name]
    rows = tables(case)["spread"].with_record(0, np.ones(case.width), case.extremes[1])
    releases = [case.estimator(Relation.REPLACE_ONE).fit(*rows.given(case)).release_ for _ in range(fits)]
    assert all(release.private for release in releases)
    assert len({_bytes(release) for release in releases}) > 1


def _bytes(release):
    return b"".join(release.arrays[name].tobytes() for name in sorted(release.arrays))


def test_every_source_of_a_secure_fit_has_a_key_of_its_own():
    given = [sources.fresh() for sources in (Sources(None), Sources(None)) for _ in range(3)]
    given += [SecureRandomness() for _ in range(3)]
    assert all(type(source) is SecureRandomness for source in given)
    keys = [bytes.fromhex(source.held()["key"]) for source in given]
    assert len(set(keys)) == 9
    # Of 72 words of 32 random bits no two are the same, but for one test in a million.
    assert len({key[place : place + 4] for key in keys for place in range(0, 32, 4)}) == 72
    assert len({source.generator(Purpose.NOISE).bytes(16) for source in given}) == 9
    assert len({np.asarray(source.gaussians(Purpose.NOISE, 0, 1, (4,), np.float32)).tobytes() for source in given}) == 9


def test_every_part_of_a_seeded_fit_has_noise_of_its_own():
    sources = Sources(7)
    drawn = {sources.fresh().generator(Purpose.NOISE).bytes(16) for _ in range(4)}
    assert len(drawn) == 4
    assert Sources(7).fresh().generator(Purpose.NOISE).bytes(16) in drawn
    assert Sources(8).fresh().generator(Purpose.NOISE).bytes(16) not in drawn
