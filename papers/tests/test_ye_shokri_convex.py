"""The lemmas of Ye and Shokri on computed laws, and Theorem D.4 beside amplification by iteration."""

from dataclasses import replace

import pytest

from papers.framework.bounds import renyi_of
from papers.framework.item import Options, VerdictKind, item_named
from papers.ye_shokri import convex
from sordino.core.spec import Spec

QUICK = Options(quick=True, data_dir=None, seed=0)


@pytest.mark.parametrize("order", [1.5, 3.0])
def test_equality_for_gaussians_that_differ_in_their_mean(order):
    pair = convex.PAIRS[0]
    assert convex.renyi(pair, order) == pytest.approx(order / 2, rel=1e-9)
    for left, right in (convex.lemma_d1(pair, order), convex.lemma_32(pair, "0.9 x", order)):
        assert left == pytest.approx(right, rel=1e-7)


@pytest.mark.parametrize("lemma", [convex.lemma_31, convex.lemma_32])
def test_a_constant_that_is_too_large_is_seen(lemma):
    """With twice the log-Sobolev constant the Gaussian pair, which attains the lemma, must break it."""
    left, right = lemma(replace(convex.PAIRS[0], constant=2.0), "0.9 x", 2.0)
    assert left > right * (1 - 1e-3 if right < 0 else 1 + 1e-3)


def test_no_constant_of_a_chain_is_above_what_is_possible_and_quadratics_attain_it():
    for chain in convex.CHAINS:
        for _, stated, most, _ in chain.constants(6):
            assert stated <= most * (1 + 1e-6)
            assert chain.push or stated == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize(("position", "epochs"), [(0, 1), (9, 1), (4, 7), (9, 30)])
def test_theorem_d4_is_amplification_by_iteration_and_what_is_registered(position, epochs):
    stated = convex.theorem_d4(10, position, epochs)
    assert convex.by_iteration(10, position, epochs) == pytest.approx(stated, rel=1e-12)
    assert convex.exact_linear(10, epochs) <= stated * (1 + 1e-12)
    if position < 9:
        return
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": 10 * epochs,
                "step_size": 0.1,
                "noise": {"kind": "gaussian", "scale": 0.5},
                "batch": {"scheme": "cyclic", "size": 5},
            },
            "problem": {"n": 50, "dim": 1, "gradient_sensitivity": 2.0, "strong_convexity": 0.0, "smoothness": 1.0},
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    one_use = (0.1 * 2.0 / 5) ** 2 / (2 * 0.5**2)
    assert renyi_of("hidden-state.convex", spec, 4.0) == pytest.approx(4.0 * one_use * stated, rel=1e-9)


def test_the_item_says_same_only_where_every_side_was_right():
    outcome = item_named("ye-shokri-convex").run(QUICK)
    assert outcome.verdict.kind is VerdictKind.SAME
    broken = convex._verdict(-0.01, {"chain": [(1, 1.0, 1.0, 1.0)]}, 0.0)
    assert broken.kind is VerdictKind.REFUTED
