"""Expectation propagation with a message for every record: the non-private reference (Minka 2001)."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sordino.algorithm.message_passing.non_private import NonPrivateResult
from sordino.algorithm.message_passing.options import Prior, Refinement
from sordino.algorithm.message_passing.release import Repairs
from sordino.algorithm.message_passing.run import Setting
from sordino.algorithm.posterior.gaussian import GaussianPosterior
from sordino.algorithm.records import checked_rows
from sordino.core.validate import Interval, number, whole_number
from sordino.model.sites.base import Site
from sordino.model.sites.families import BlockGaussian, Family

_SHARE = Interval(0.0, 1.0, low_open=True)


class _State(NamedTuple):
    """The posterior, every record's message, and how many updates were left out."""

    theta: Array
    messages: Array
    skipped: Array


def expectation_propagation(
    site: Site, features: Any, target: Any, *, prior: Prior, passes: int, damping: float = 1.0
) -> NonPrivateResult:
    """Refine every record's message `passes` times, in file order; memory grows with the number of records.

    A record whose cavity is not positive definite is left out of that pass; the result counts such updates as repairs.
    """
    X, y = checked_rows(features, target)
    setting = Setting(site, prior, Refinement(), X.shape[1])
    dtype = jnp.zeros(()).dtype
    share = jnp.asarray(number("damping", damping, _SHARE), dtype)
    state = refine(
        site,
        setting.family,
        whole_number("passes", passes),
        (jnp.asarray(X, dtype), jnp.asarray(y, dtype)),
        setting.prior_vector,
        share,
    )
    skipped = int(state.skipped)
    posterior = GaussianPosterior(site, setting.family, np.asarray(state.theta))
    return NonPrivateResult(posterior, Repairs(skipped, skipped), "expectation propagation adds no noise")


@partial(jax.jit, static_argnums=(0, 1, 2))
def refine(site: Site, family: Family, passes: int, rows: tuple[Array, Array], prior: Array, share: Array) -> _State:
    """All passes, compiled."""
    X, y = rows

    def one(n: Array, state: _State) -> _State:
        cavity = state.theta - state.messages[n]
        moments = family.moments(cavity)
        # A message is exact at any value of 1 - v k, so nothing is clamped here.
        message = family.site(moments, site.slopes(moments, X[n], y[n]), 1.0, (-jnp.inf, jnp.inf))
        change = share * (message - state.messages[n])
        proper = _definite(family, cavity) & jnp.all(jnp.isfinite(change)) & _definite(family, state.theta + change)
        change = jnp.where(proper, change, 0.0)
        messages = state.messages.at[n].add(change)
        return _State(state.theta + change, messages, state.skipped + (1 - proper.astype(jnp.int32)))

    def one_pass(_: Array, state: _State) -> _State:
        state = lax.fori_loop(0, X.shape[0], one, state)
        return state._replace(theta=prior + jnp.sum(state.messages, axis=0))  # rounding does not build up

    start = _State(prior, jnp.zeros((X.shape[0], family.size), prior.dtype), jnp.zeros((), jnp.int32))
    return lax.fori_loop(0, passes, one_pass, start)


def _definite(family: Family, theta: Array) -> Array:
    precision = family.unpack(theta).precision
    if isinstance(family, BlockGaussian):
        return jnp.all(jnp.isfinite(jnp.linalg.cholesky(precision)))
    return jnp.all(precision > 0.0)
