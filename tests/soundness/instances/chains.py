"""Chains on affine gradients under every batch scheme: Gaussian laws, or one component per pattern of uses."""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import permutations

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from sordino.models.exact import GaussianMixtureLaw, Quadratics
from tests.models.exact.laws import passes
from tests.soundness.cells import CellTruth
from tests.soundness.chains import Facts, Shape, chain_instance, facts_of
from tests.soundness.long_runs import chain
from tests.soundness.pieces import VIEWS, chance, log_uniform
from tests.soundness.records import Pair, Universe, add_remove_pairs, mixed_pairs, replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance

_ONE, _MANY = Relation.REPLACE_ONE, 10**6


def _drawn(
    rng: np.random.Generator, shape: Shape, pairs: Callable[[Universe], list[Pair]], *, curved: bool | None = None
) -> Instance:
    """A universe of records, curved by chance unless that is said, and neighbours in it."""
    unit = log_uniform(rng, 0.01, 100)
    records = universe(rng, shape.dim, unit, curved=bool(rng.integers(2)) if curved is None else curved)
    return chain_instance(rng, shape, pairs(records), facts_of(shape, records))


def _kept(view: View) -> int:
    """How many iterates a law in space can hold."""
    return 3 if view is View.ALL_ITERATES else _MANY


# Full batches, both relations: Gaussian laws of any dimension.


def _full(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    shape = _full_shape(rng, relation, view)
    if relation is Relation.ADD_REMOVE:
        return _drawn(rng, shape, lambda records: add_remove_pairs(rng, records, shape.n), curved=False)
    return _drawn(rng, shape, lambda records: replace_one_pairs(rng, records, shape.n, [0]))


def _full_shape(rng: np.random.Generator, relation: Relation, view: View) -> Shape:
    n, steps = int(rng.integers(1, 30)), int(rng.integers(1, 30))
    return Shape(Scheme.FULL, relation, view, n, int(rng.integers(1, 4)), n, steps, most_chains=2)


@instance("full-mixed-curvature")
def _full_mixed(rng: np.random.Generator) -> Instance:
    """Every record has a curvature of its own; the update has their mean."""
    shape = _full_shape(rng, _ONE, View.LAST_ITERATE)
    unit = log_uniform(rng, 0.01, 100)
    pairs, decay, curvatures = mixed_pairs(rng, shape.dim, unit, shape.n, [0, int(rng.integers(shape.n))])
    values = np.linalg.eigvalsh(curvatures.mean(axis=0)) + decay
    return chain_instance(rng, shape, pairs, Facts(max(0.0, values.min()), values.max(), 2 * unit))


# Cyclic batches: the record at the first place, at the last, and at random ones; partial last batches and epochs.


def _cyclic_shape(rng: np.random.Generator, view: View) -> Shape:
    n = int(rng.integers(2, 13))
    size = int(rng.integers(1, n + 1))
    steps = int(rng.integers(1, 4 * -(-n // size) + 2))
    return Shape(Scheme.CYCLIC, _ONE, view, n, int(rng.integers(1, 4)), size, steps, most_chains=2)


def _positions(rng: np.random.Generator, shape: Shape) -> list[int]:
    """First, last, the last one used by the last step, and another."""
    used_last = min(shape.n, ((shape.steps - 1) * shape.size) % (-(-shape.n // shape.size) * shape.size) + 1) - 1
    return [0, shape.n - 1, used_last, int(rng.integers(shape.n))]


def _cyclic(rng: np.random.Generator, view: View) -> Instance:
    shape = _cyclic_shape(rng, view)

    def pairs(records: Universe) -> list[Pair]:
        return replace_one_pairs(rng, records, shape.n, _positions(rng, shape))

    return _drawn(rng, shape, pairs)


@instance("cyclic-mixed-curvature")
def _cyclic_mixed(rng: np.random.Generator) -> Instance:
    """Every record has a curvature of its own, so every batch contracts differently."""
    shape = _cyclic_shape(rng, View.LAST_ITERATE)
    unit = log_uniform(rng, 0.01, 100)
    pairs, decay, curvatures = mixed_pairs(rng, shape.dim, unit, shape.n, _positions(rng, shape))
    batches = np.split(curvatures, range(shape.size, shape.n, shape.size))
    values = [np.linalg.eigvalsh(batch.sum(axis=0) / shape.size) + decay for batch in batches]
    lowest, highest = min(v.min() for v in values), max(v.max() for v in values)
    return chain_instance(rng, shape, pairs, Facts(max(0.0, float(lowest)), float(highest), 2 * unit))


@instance("cyclic-add-remove")
def _cyclic_add_remove(rng: np.random.Generator) -> Instance:
    """Batches of one record whose gradients alternate: without the first, all batches change. No theorem may apply."""
    n, epochs = int(rng.integers(4, 21)), int(rng.integers(1, 3))
    shape = Shape(Scheme.CYCLIC, Relation.ADD_REMOVE, View.ALL_ITERATES, n, 1, 1, n * epochs)
    records = Universe(1, float(rng.uniform(0.02, 1.0)), np.zeros((1, 1)), log_uniform(rng, 0.01, 100), np.ones(1))
    pulls = records.radius * np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]
    pair = Pair("alternating, the first leaves", records.dataset(pulls), records.dataset(pulls[1:]))

    def batches(data: Quadratics) -> list[np.ndarray]:
        return passes(data.n, 1, [np.arange(data.n)], shape.steps)

    return chain_instance(rng, shape, [pair], facts_of(shape, records), batches)


# Batches in a random order, drawn once or every epoch, and drawn without or with replacement at every step.
# The most batches of all epochs together whose orders are enumerated, by the number of batches in an epoch.
_MOST_STEPS = {1: 6, 2: 14, 3: 15, 4: 16, 5: 15, 6: 18}


def _shuffled(rng: np.random.Generator, scheme: Scheme, view: View) -> Instance:
    n = int(rng.integers(2, 7))
    size = int(rng.integers(1, n + 1))
    most = 6 if view is View.ALL_ITERATES else _MOST_STEPS[-(-n // size)]
    shape = Shape(scheme, _ONE, view, n, 1, size, int(rng.integers(1, most + 1)), most_kept=_kept(view))
    return _drawn(rng, shape, lambda records: replace_one_pairs(rng, records, n, [0]))


def _without_replacement(rng: np.random.Generator, view: View) -> Instance:
    n = int(rng.integers(2, 30))
    size = int(rng.integers(1, n + 1))
    steps = int(rng.integers(1, 6 if view is View.ALL_ITERATES else 9))
    shape = Shape(Scheme.WITHOUT_REPLACEMENT, _ONE, view, n, 1, size, steps, most_kept=_kept(view))
    return _drawn(rng, shape, lambda records: replace_one_pairs(rng, records, n, [0]))


def _with_replacement(rng: np.random.Generator, view: View) -> Instance:
    n = int(rng.integers(2, 8))
    size = int(rng.integers(1, min(n, 4) + 1))
    steps = int(rng.integers(1, 4 if view is View.ALL_ITERATES else 6))
    shape = Shape(Scheme.WITH_REPLACEMENT, _ONE, view, n, 1, size, steps, most_kept=_kept(view))
    return _drawn(rng, shape, lambda records: replace_one_pairs(rng, records, n, [0]))


def pass_of(moves: tuple[float, ...], size: int = 1) -> GaussianMixtureLaw:
    """What a pass shows: given the iterate before, a batch's move plus a unit normal, in uniformly random order."""
    cuts = list(range(0, len(moves), size))
    counted = Counter(
        tuple(round(math.fsum(order[cut : cut + size]), 12) for cut in cuts) for order in permutations(moves)
    )
    orders = np.array(sorted(counted))
    weights = np.array([counted[tuple(order)] for order in orders.tolist()]) / math.factorial(len(moves))
    return GaussianMixtureLaw(weights, orders, np.tile(np.eye(len(cuts)), (len(orders), 1, 1)))


def _one_pass(rng: np.random.Generator, n: int, size: int) -> Instance:
    ratio, steps = log_uniform(rng, 0.05, 0.5), -(-n // size)
    scheme = str(rng.choice(["reshuffled", "shuffle-once"]))
    delta = float(rng.choice([1e-4, 1e-2, 0.1]))
    spec = chain(steps, size, n, float(rng.uniform(0.1, 1.0)), ratio, scheme=scheme, view="all-iterates", delta=delta)
    neighbours = []
    for label, others in (("at the ends", rng.integers(0, 2, n - 1)), ("between", rng.random(n - 1))):
        near = tuple((ratio * others * (1 - 1e-9)).tolist())
        laws = (pass_of((own, *near), size) for own in (0.0, ratio * (1 - 1e-9)))
        neighbours.append(Neighbours(label, CellTruth.between(*laws)))
    return Instance(spec, tuple(neighbours))


@instance("shuffled-single-records")
def _single_records(rng: np.random.Generator) -> Instance:
    """One pass over two or three records, one a step, every iterate seen; the others anywhere between the two."""
    return _one_pass(rng, int(rng.integers(2, 4)), 1)


@instance("shuffled-batches")
def _batches(rng: np.random.Generator) -> Instance:
    """The same with two or three batches of two or three records, of which the last may not be full."""
    return _one_pass(rng, *((4, 2), (5, 2), (6, 3), (5, 3))[int(rng.integers(4))])


# Poisson batches, and others in which every record has its own place: bounded gradients are constants, so all curvature
# is in the weight decay. Records whose gradient is 0 change no batch sum and are left out: the patterns stay few.
_MOST_POISSON, _MOST_ALLOCATED = 1024, 2000


def _few(rng: np.random.Generator, records: Universe, relation: Relation) -> list[Pair]:
    def dataset(*pulls: np.ndarray) -> Quadratics:
        return records.dataset(np.array(pulls).reshape(-1, 1))

    up, other = records.radius * records.axis, records.pull(rng)
    if relation is Relation.ADD_REMOVE:
        return [
            Pair("one leaves", dataset(up), dataset()),
            Pair("one leaves another", dataset(up, -up), dataset(-up)),
            Pair("random one joins", dataset(other), dataset(other, up)),
        ]
    first, second = (records.pull(rng) for _ in range(2))
    return [
        Pair("opposite", dataset(up), dataset(-up)),
        Pair("replaced by a record that does not pull", dataset(up), dataset()),
        Pair("random", dataset(other, first), dataset(other, second)),
    ]


def _largest(pair: Pair) -> int:
    return max(pair.first.n, pair.second.n)


def _poisson_pairs(rng: np.random.Generator, records: Universe, relation: Relation, steps: int) -> list[Pair]:
    """Neighbours whose patterns of uses are few enough to list."""
    return [pair for pair in _few(rng, records, relation) if 2 ** (steps * _largest(pair)) <= _MOST_POISSON]


def _poisson(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    n = int(rng.integers(4, 200))
    size = int(rng.integers(1, n + 1))
    rate = None if chance(rng, 0.5) else float(rng.uniform(0.02, 1.0))
    steps = int(rng.integers(1, 6 if view is View.ALL_ITERATES else 10))
    shape = Shape(Scheme.POISSON, relation, view, n, 1, size, steps, rate, _kept(view))
    return _drawn(rng, shape, lambda records: _poisson_pairs(rng, records, relation, steps), curved=False)


def _allocated(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    """Rounds of two to five steps, up to two uses in each, a last round that may be cut short."""
    length = int(rng.integers(2, 6))
    n, uses = length * int(rng.integers(1, 20)), int(rng.integers(1, 3))
    steps = int(rng.integers(1, 6 if view is View.ALL_ITERATES else 9))
    shape = Shape(Scheme.RANDOM_ALLOCATION, relation, view, n, 1, n // length, steps, None, _kept(view), uses=uses)

    def pairs(records: Universe) -> list[Pair]:
        patterns = math.comb(length, uses) ** -(-steps // length)
        return [pair for pair in _few(rng, records, relation) if patterns ** _largest(pair) <= _MOST_ALLOCATED]

    return _drawn(rng, shape, pairs, curved=False)


def _truncated(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    """Two to four records, caps that are often met; the odd record first, last, or between."""
    n = int(rng.integers(2, 5))
    size = int(rng.integers(1, n + 1))
    rate = float(rng.uniform(0.05, 0.95))
    cap = int(rng.integers(max(1, int(np.ceil(rate * n))), n + 1))
    steps = int(rng.integers(1, 4))
    shape = Shape(Scheme.TRUNCATED_POISSON, relation, view, n, 1, size, steps, rate, _kept(view), cap=cap)
    return _drawn(rng, shape, lambda records: _at_ends(rng, records, n, relation, (0, n - 1)), curved=False)


def _apart(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    """One or two records, uses two or three steps apart, rates up to 1."""
    n, separation = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    rate = float(rng.choice([rng.uniform(0.05, 0.95), 1.0], p=[0.8, 0.2]))
    steps = int(rng.integers(1, 6))
    shape = Shape(Scheme.MIN_SEPARATION, relation, view, n, 1, 1, steps, rate, _kept(view), separation=separation)
    return _drawn(rng, shape, lambda records: _at_ends(rng, records, n, relation, (0,)), curved=False)


def _at_ends(
    rng: np.random.Generator, records: Universe, n: int, relation: Relation, places: tuple[int, ...]
) -> list[Pair]:
    """Replaced at these places; or others pull one way, and the record that leaves the other way or the same."""
    if relation is Relation.REPLACE_ONE:
        return replace_one_pairs(rng, records, n, list(places))
    up = records.radius * records.axis
    others = np.tile(up, (n - 1, 1))
    ways = [(place, sign) for place in places for sign in (-1, 1)]
    joined = [records.dataset(np.insert(others, place, sign * up, axis=0)) for place, sign in ways]
    labels = [f"leaves {place} of {n}, {sign}" for place, sign in ways]
    return [Pair(label, both, records.dataset(others)) for label, both in zip(labels, joined, strict=True)]


# Records whose objectives share one constant curvature, declared as m = M: steps are affine, on any random batches.
_MOST_AFFINE = {1: 6, 2: 14, 3: 12, 4: 12, 5: 10, 6: 12}


def _affine(rng: np.random.Generator, scheme: Scheme, relation: Relation, view: View) -> Instance:
    n = int(rng.integers(2, 7))
    size = int(rng.choice([divisor for divisor in range(1, n + 1) if n % divisor == 0]))
    most = _MOST_AFFINE[n // size] if scheme is Scheme.RESHUFFLED else 9
    rate = float(rng.uniform(0.02, 1.0)) if scheme is Scheme.POISSON and chance(rng, 0.5) else None
    steps = int(rng.integers(1, (6 if view is View.ALL_ITERATES else most) + 1))
    shape = Shape(scheme, relation, view, n, 1, size, steps, rate, _kept(view), plain=True, affine=True)

    def pairs(records: Universe) -> list[Pair]:
        if scheme is Scheme.POISSON:
            return _poisson_pairs(rng, records, relation, steps)
        return replace_one_pairs(rng, records, n, [0])

    return _drawn(rng, shape, pairs, curved=False)


# The papers' setting: constant schedules, whole epochs, contracting steps, the last iterate, replace-one. The same with
# steps that forget everything, c = 0, where powers of the contraction have an edge. The most batches an epoch and the
# most steps; random orders are enumerated.
_LIMITS = {Scheme.FULL: (1, 40), Scheme.CYCLIC: (8, 40), Scheme.SHUFFLE_ONCE: (6, 24)}
_LIMITS |= {Scheme.RESHUFFLED: (4, 12), Scheme.WITHOUT_REPLACEMENT: (6, 8)}


def _paper(rng: np.random.Generator, scheme: Scheme, *, forgetting: bool = False) -> Instance:
    most_batches, most_steps = _LIMITS[scheme]
    batches = int(rng.integers(1, most_batches + 1))
    size = int(rng.integers(1, 4))
    steps = batches * int(rng.integers(1, max(2, most_steps // batches + 1)))
    n = batches * size
    shape = Shape(scheme, _ONE, View.LAST_ITERATE, n, 1, size, steps, plain=True, forgetting=forgetting)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    if forgetting:
        records = Universe(1, 2.0 ** int(rng.integers(-3, 4)), np.zeros((1, 1)), records.radius, records.axis)
    pairs = replace_one_pairs(rng, records, n, [0, n - 1] if scheme is Scheme.CYCLIC else [0])
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


for _scheme in _LIMITS:
    instance(f"paper-{_scheme}")(partial(_paper, scheme=_scheme))
    instance(f"forgetting-{_scheme}")(partial(_paper, scheme=_scheme, forgetting=True))
for _view in VIEWS:
    instance(f"cyclic-{_view}")(partial(_cyclic, view=_view))
    instance(f"without-replacement-{_view}")(partial(_without_replacement, view=_view))
    instance(f"with-replacement-{_view}")(partial(_with_replacement, view=_view))
    for _scheme in (Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED):
        instance(f"{_scheme}-{_view}")(partial(_shuffled, scheme=_scheme, view=_view))
    for _scheme in (Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT):
        instance(f"affine-{_scheme}-{_view}")(partial(_affine, scheme=_scheme, relation=_ONE, view=_view))
    for _relation in Relation:
        instance(f"full-{_relation}-{_view}")(partial(_full, relation=_relation, view=_view))
        instance(f"poisson-{_relation}-{_view}")(partial(_poisson, relation=_relation, view=_view))
        instance(f"truncated-poisson-{_relation}-{_view}")(partial(_truncated, relation=_relation, view=_view))
        instance(f"min-separation-{_relation}-{_view}")(partial(_apart, relation=_relation, view=_view))
        instance(f"random-allocation-{_relation}-{_view}")(partial(_allocated, relation=_relation, view=_view))
for _name, _relation, _view in (
    ("last-iterate", _ONE, View.LAST_ITERATE),
    ("add-remove-all-iterates", Relation.ADD_REMOVE, View.ALL_ITERATES),
):
    instance(f"affine-poisson-{_name}")(partial(_affine, scheme=Scheme.POISSON, relation=_relation, view=_view))
