"""Constants of 16 and more that limit no size of a run, with a reason each."""

# Reason -> module -> names.
_REASONS: dict[str, dict[str, str]] = {
    "of a file's text; a larger one is refused": {"core.spec.document": "LARGEST_FILE LARGEST_INTEGER"},
    "how long a search goes on: any point it ends at is valid": {
        "accounting.calibration": "_MOST_STEPS _REACH _ROUNDS",
        "core.loss.mixture_pairs": "_STEPS",
    },
    "points of a grid, or how finely it is looked at: a coarser one costs width, never validity": {
        "accounting.bounds.heavy_tail": "_POWERS",
        "accounting.bounds.hidden_steps": "_CELLS _FEWEST _GROUPS _MANY _POINTS",
        "accounting.bounds.segments": "_CELLS _LOG_CUT",
        "accounting.theorems.shifted": "_AFFINE_VALUES",
        "accounting.theorems.mixed_tails": "_COMPONENTS _EDGE _NODES _POINTS _SAMPLED_COMPONENTS",
        "accounting.theorems.averages": "_GAUSSIAN_VALUES _LAPLACE_VALUES",
        "accounting.bounds.window": "_CELLS _COARSE_CELLS _ANSWER_VALUES _SEARCH_VALUES",
        "accounting.bounds.revealed": "_BLOCKS _CELLS _COUNTS _FEW_BLOCKS _DISTANCES _MOST_COSTS _MOST_ENDINGS "
        "_MOST_MUS _RARE_FOLDINGS",
        "accounting.convert": "_LONGEST _RANGE_POINTS _RESOLUTION",
        "accounting.theorems.shifted_bounded": "LONGEST_PLAN _WINDOWS",
        "accounting.bounds.renyi": "_LEFT _RIGHT",
        "accounting.theorems.sampled": "_FEW_PAIRS _MOST_PAIRS",
        "core.loss.allocation": "_CELLS _MOST_POINTS _SKETCHED",
        "core.loss.evaluate": "_DELTA_FINEST _FINEST_GRID _MISLED _START _COARSEST _MOST_POINTS _STAGE_FACTOR _WIDEST",
        "core.loss.discretise": "_LONGEST",
        "core.loss.mixture_pairs": "_SKETCHED",
        "core.loss.convolve": "_BLOCKS",
    },
    "terms or digits of a computation whose error is accounted for": {
        "accounting.bounds.renyi": "_REACH _DIGITS _MOST_DIGITS _OUTER",
        "accounting.bounds.heavy_tail": "_MOST_TERMS",
        "core.loss.allocation": "_WIPED_OUT",
        "core.loss.atomic_pairs": "_REACH",
        "core.loss.convolve": "LOG_OUTSIDE",
        "core.loss.mixture_pairs": "_REACH",
    },
    "an order; compared on both sides of it": {"accounting.bounds.renyi": "LARGEST_REMOVAL LARGEST_SUBSET_ORDER"},
    "an epsilon, refused beyond": {
        "accounting.theorems.posterior": "_LARGEST_EPSILON",
        "accounting.theorems.mechanisms": "_LARGEST_EPSILON",
    },
}
NOT_SIZES = {
    f"{module}:{name}": reason
    for reason, modules in _REASONS.items()
    for module, names in modules.items()
    for name in names.split()
} | {
    "core.spec.document:DEEPEST_NESTING": "of a file's text; a deeper one is refused",
    "accounting.bounds.hidden_steps:_MOST_CLONES": "clones that are counted; fewer hide less, both in test_clones",
    "accounting.bounds.segments:_MOST_COUNTS": "more uses are rounded up; both sides in test_binomial",
    "accounting.bounds.hidden_steps:_MOST_USES": "more uses are rounded up; both sides in test_units_of_records",
    "accounting.theorems.mixed_tails:_LARGEST_EXPONENT": "of a probability; what is rarer counts as certain loss",
    "accounting.theorems.posterior_drawn:_LONGEST_LOSS": "of an exponent; a larger one is refused",
    "accounting.bounds.revealed:_SMALLEST_LOG_RATIO": "met beside _MOST_LISTED_PASSES; rounds up",
    "core.loss.atomic_pairs:_LARGEST_EXPONENT": "an exponent that a float can hold; beyond it a negative term goes",
    "accounting.theorems.shifted_bounded:_MOST_FROM_THE_START": "longer runs are bounded from any law; both hold",
    "accounting.theorems.shifted_bounded:_MOST_QUIET": "fewer steps without the record leave a larger curve",
    "accounting.theorems.shifted_bounded:_MOST_USES": "fewer uses followed leave a larger curve",
    "accounting.bounds.renyi:LARGEST_ORDER": "an order, not a size: the harness compares orders on both sides of it",
    "accounting.bounds.renyi:LARGEST_POWER": "an order less 1; compared on both sides of it",
    "accounting.bounds.renyi:LARGEST_MU": "a ratio; a Gaussian use beyond, compared on both sides",
    "accounting.bounds.segments:_SHARED_MUS": "counted with _EXACT",
    "accounting.theorems.mechanisms:_MOST_ATOMS": "listed whole numbers, refused beyond; see test_mechanisms",
    "accounting.bounds.matrix:_MOST_CLASSES": "ways to sort places of which the best is taken; each holds alone",
    "accounting.theorems.matrices:_HUGE": "an exponent that a float can hold; steers which places are told apart",
    "accounting.theorems.matrices:_MOST_PLACES": "places of a use, refused beyond; time, not validity",
    "accounting.theorems.sampled:_MOST_TOLD": "uses that are told apart; more count as all, see test_counted_uses",
    "accounting.theorems.sampled:_LONGEST_ROUND": "steps of a round, refused beyond; time, not validity",
    "accounting.bounds.revealed:_VERY_LONG": "longer blocks, which are above the law; both sides in test_revealed",
    "core.binomial:_FEW": "two ways to a Stirling error, both with error bounds; both sides in test_binomial",
    "core.binomial:_SPLIT": "a power of two that splits digits of a product, whatever their number",
    "core.binomial:_TERMS": "of a continued fraction: two convergents enclose it wherever one stops, see test_binomial",
    "core.loss.allocation:_FAR": "points that a list need not hold; both sides in test_allocation",
    "core.loss.allocation:_MOST_CELLS": "cells of a grid, refused beyond",
    "core.loss.allocation:_MOST_REPLACED": "longer rounds count as a removal and an addition; both in test_allocation",
    "core.loss.mixture_pairs:_MOST_USES": "uses that are told apart; more of them are rounded up onto so many",
}
# Literals of 16 and more in comparisons, minima and maxima: exponents that a float can hold, and the like.
INLINE: dict[str, tuple[float, ...]] = {
    "accounting.convert": (700,),
    "accounting.bounds.heavy_tail": (30.0, 700.0),
    "accounting.theorems.mixed_tails": (700.0,),
    "accounting.theorems.hidden_state": (500.0, 600.0, 700.0),
    "accounting.bounds.hidden_steps": (40.0,),
    "accounting.bounds.segments": (96, 320),
    "accounting.bounds.window": (160,),
    "accounting.bounds.revealed": (64, 300.0),
    "accounting.bounds.renyi": (30.0, 300.0, 500, 700),
    "accounting.bounds.closed_forms": (700,),
    "accounting.theorems.transfer": (1e3,),
    "core.gaussian": (1e5,),
    "core.loss.atomic_pairs": (700,),
    "core.loss.convolve": (700.0,),
    "core.loss.pair": (700.0, 1e300),
    "core.loss.discretise": (700.0,),
    "core.loss.normal_pairs": (30.0, 1e3, 1e8),
}
