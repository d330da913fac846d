"""Mechanisms whose privacy is known: exact ones, ones with a bug each, and ones that no audit can work with.

Workers import this file by its path, so it needs nothing but NumPy. Generators are fresh in every process.
"""

import itertools
import math

import numpy as np

EPSILON = 1.0
rng = np.random.default_rng()


def seeded(seed):
    """For hunts in this process that are to be the same every time."""
    global rng  # noqa: PLW0603
    rng = np.random.default_rng(seed)


def laplace(scale):
    return float(rng.laplace(0.0, scale))


def two_sided_geometric():
    """Whole noise with P(k) proportional to exp(-epsilon |k|): exactly epsilon for a sum of sensitivity 1."""
    share = 1 - math.exp(-EPSILON)
    return int(rng.geometric(share)) - int(rng.geometric(share))


# Exact: the claim is true, and is reached.
def noised_count(table):
    return len(table) + two_sided_geometric()


def randomised_response(table):
    truth = int(table[0])
    return truth if rng.random() < math.exp(EPSILON) / (1 + math.exp(EPSILON)) else 1 - truth


def gaussian_sum(table):
    return sum(table) + float(rng.normal(0.0, 2.0))


# Broken.
def halved_noise(table):
    return len(table) + laplace(0.5 / EPSILON)


def float_laplace(table):
    return sum(table) + laplace(1 / EPSILON)


def scale_from_data(table):
    size = max(len(table), 1)
    return sum(table) / size + laplace(1 / (EPSILON * size))


def telling_exception(table):
    if any(value > 0.9 for value in table):
        raise ValueError("a value is too large")
    return laplace(1 / EPSILON)


def telling_message(table):
    raise ValueError(f"{len(table)} records are not enough")


def telling_length(table):
    return [laplace(1.0) for _ in table]


def telling_type(table):
    return laplace(1.0) if table else None


def nan_passes(table):
    clipped = [min(max(value, 0.0), 1.0) if value == value else value for value in table]  # noqa: PLR0124
    return sum(clipped) + laplace(1 / EPSILON)


def reused_noise(table):
    noise = laplace(2 / EPSILON)
    return [sum(table) + noise, len(table) + noise]


def ties_by_order(table):
    """A noisy maximum without noise among ties: the first of the largest."""
    answers = [sum(row[place] for row in table) for place in range(3)]
    return int(np.argmax(answers)) if rng.random() < 0.9 else int(rng.integers(3))


# Not to be audited.
_calls = itertools.count()
_memory = []
_seeded = np.random.default_rng(7)


def drifts(table):
    return next(_calls) * 0.01 + laplace(0.5)


def remembers(table):
    _memory.append(laplace(1.0))
    return sum(_memory[-2:])


def keeps_first(table):
    if not _memory:
        _memory.append(laplace(1.0))
    return _memory[0]


def has_seed(table):
    return sum(table) + float(_seeded.laplace(0.0, 1.0))


def returns_object(table):
    return object()


def returns_generator(table):
    return (value for value in table)


def changes_its_argument(table):
    table.clear()
    return two_sided_geometric()


def prints(table):
    print("not an answer")  # noqa: T201
    return len(table) + two_sided_geometric()


def random_length(table):
    return [two_sided_geometric() for _ in range(int(rng.integers(4)))]


def echo(table):
    array = np.array([[1.5, -0.0]])
    return {"table": table, "text": "é\n", "number": 1e300, "array": array, "none": None, "big": 2**70}


NOT_CALLABLE = 3
