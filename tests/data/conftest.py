"""Strategies for schemas, shared by the tests of this folder."""

import pytest
from hypothesis import strategies as st

from sordino import data

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
WORDS = st.lists(NAMES, min_size=2, max_size=5, unique=True).map(tuple)
FINITE = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def bounds(draw):
    low = draw(FINITE)
    return low, low + draw(st.floats(1e-3, 1e6)) * max(1.0, abs(low))


@st.composite
def numbers(draw, kind, rules):
    low, high = draw(bounds())
    fills = st.floats(0.0, 1.0).map(lambda share: data.MissingRule("value", min(high, low + share * (high - low))))
    return kind(
        low, high, draw(st.sampled_from(data.Scaling)), draw(rules | fills), draw(st.sampled_from(("clip", "refuse")))
    )


@st.composite
def categories(draw, rules):
    words = draw(WORDS)
    fills = st.sampled_from(words).map(lambda word: data.MissingRule("value", word))
    unseen = draw(st.sampled_from(("refuse", "other")))
    return data.Category(words, unseen, draw(st.booleans()), draw(rules | fills))


@st.composite
def category_targets(draw):
    words = draw(WORDS)
    fills = st.sampled_from(words).map(lambda word: data.MissingRule("value", word))
    return data.Category(words, draw(st.sampled_from(("refuse", "other"))), missing=draw(st.just(data.REFUSE) | fills))


BOOLEAN_FILLS = st.booleans().map(lambda value: data.MissingRule("value", value))


@st.composite
def schemas_of(draw):
    rules = st.sampled_from((data.REFUSE, data.INDICATOR))
    booleans = (rules | BOOLEAN_FILLS).map(lambda rule: data.Boolean(missing=rule))
    kinds = numbers(data.Number, rules) | categories(rules) | booleans
    targets = (
        numbers(data.Number, st.just(data.REFUSE))
        | category_targets()
        | (st.just(data.REFUSE) | BOOLEAN_FILLS).map(lambda rule: data.Boolean(missing=rule))
    )
    count = draw(st.integers(1, 4))
    # A number in front keeps encoded names such as "3:a=b" of different columns apart.
    named = [f"{index}:{draw(NAMES)}" for index in range(count + 1)]
    intercept = draw(st.booleans())
    return data.Schema(
        records=draw(st.integers(1, 10**9)),
        features=tuple(data.Feature(name, draw(kinds)) for name in named[:count]),
        target=draw(st.none() | targets.map(lambda kind: data.Target(named[count], kind))),
        intercept=intercept,
        row_norm=draw(st.none() | st.builds(data.RowNorm, st.floats(1.001, 1e6), st.booleans())),
        extra_columns=draw(st.sampled_from(("refuse", "ignore"))),
        missing_tokens=("", "a missing value"),
        description=draw(st.text(st.characters(codec="utf-8"), max_size=10)),
        reads_private_data=draw(st.booleans()),
    )


@pytest.fixture(scope="session")
def schemas():
    """A strategy of valid schemas of every kind."""
    return schemas_of()
