"""The small ridge regression of the chains, for tests of what feeds them."""

from tests.mechanisms.chain.conftest import line, quadratic  # noqa: F401
