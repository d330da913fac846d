"""`sordino.chain`: pure steps with the bits of `run`, in jit, vmap and scan, and what is certified of own draws."""

import dataclasses
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import stats

import sordino
from sordino.auditing.replay.port import Recorder
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, Randomness, SeededRandomness, run
from sordino.mechanisms.chain.batches import Sampling, batches_for
from sordino.mechanisms.chain.functional import DrawnBatch, composition_only
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.regression import GaussianLinear
from sordino.models.registry import JaxModel
from sordino.noise.secure import key_for, secure_key, standard_gaussians
from tests.mechanisms.specs import chain_spec

N, DIM, STEPS = 40, 3, 6
KEY = 7


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def rows(n=N, seed=1, long=1.0):
    generator = np.random.default_rng(seed)
    return long * generator.normal(size=(n, DIM)), generator.choice([-1.0, 1.0], n)


def described(scheme="full", *, view="all-iterates", problem=(), **more) -> Spec:
    given = {
        "steps": STEPS,
        "step_size": {"kind": "polynomial", "initial": 0.4, "offset": 3.0, "power": 0.5},
        "noise": {"kind": "gaussian", "scale": 0.05},
        "batch": {"scheme": scheme} | ({} if scheme == "full" else {"size": 8}),
        "clipping": {"kind": "norm", "bound": 0.5},
    }
    constants = {"gradient_sensitivity": 1.0, "gradient_bound": 0.5} | dict(problem)
    return chain_spec(N, DIM, view=view, problem=constants, **(given | more))


class Keyed(Randomness):
    """The draws of a pure chain for each of several keys, where `run` asks for them."""

    def __init__(self, keys):
        self.keys = keys

    def gaussians(self, purpose, first, steps, shape, dtype):
        def of(key, number):
            return standard_gaussians(key_for(key, purpose, number), shape[1:])

        return jax.vmap(lambda number: jax.vmap(of, (0, None))(self.keys, number))(first + jnp.arange(steps))

    def generator(self, purpose):
        return SeededRandomness(KEY).generator(purpose)


def path(chain, key, draw, data, params=None):
    def body(state, number):
        state = chain.step(key, state, draw(data, number))
        return state, state.params

    return lax.scan(body, chain.init(key, params), jnp.arange(STEPS))


def batches_of_run(spec):
    """The batches that `run` draws, as a pure chain takes them, for every chain and step."""
    generator = SeededRandomness(KEY).generator(Purpose.BATCHES)
    algorithm, batch = spec.algorithm, spec.algorithm.batch
    sizes = (N, algorithm.divisor(N), batch.chance(N), algorithm.chains, STEPS)
    stream = batches_for(batch.scheme, Sampling(*sizes, generator, separation=batch.apart(N)))
    assert stream is not None
    block = stream.take(STEPS)
    groups = [list(range(algorithm.chains)), [0] * algorithm.chains][stream.shared]
    listed = np.stack([[block.records[block.starts[k, g] :][: stream.capacity] for k in range(STEPS)] for g in groups])
    counts = np.stack([[block.counts[k, g] for k in range(STEPS)] for g in groups])
    return jnp.asarray(listed), jnp.asarray(counts), stream.capacity


# Batches are made elsewhere (`test_the_schemes_draw_what_they_are_called`); here all records, a list
# of some, and (with a loss of one's own) lists whose lengths vary are stepped through.
DRAWN = {Scheme.FULL, Scheme.CYCLIC}
OWN = JaxModel(lambda theta, x, y: jnp.tanh(y * x @ theta), DIM)


@pytest.mark.parametrize(
    ("scheme", "model"),
    [
        *(
            pytest.param(scheme, Logistic(weight_decay=0.1), marks=() if scheme in DRAWN else pytest.mark.slow)
            for scheme in sorted(Scheme)
        ),
        pytest.param(Scheme.FULL, OWN, marks=pytest.mark.slow),
        (Scheme.POISSON, OWN),
    ],
)
def test_a_scan_of_steps_under_vmap_has_the_bits_of_a_run(scheme, model):
    spec = described(scheme, chains=3, projection={"kind": "ball", "radius": 0.3})
    X, y = rows()
    keys = jax.random.split(jax.random.key(KEY), 3)
    wanted = run(spec, model, X, y, Keyed(keys)).iterates
    chain = sordino.chain(spec, model)
    data = chain.data(X, y)
    if scheme == Scheme.FULL:
        own = jax.jit(jax.vmap(lambda key: path(chain, key, chain.batches(key), data)[1]))(keys)
    else:
        listed, counts, capacity = batches_of_run(spec)

        def given(key, records, count):
            draw = lambda data, k: DrawnBatch(data, records[k], count[k], capacity, False)  # noqa: E731
            return path(chain, key, draw, data)[1]

        own = jax.jit(jax.vmap(given))(keys, listed, counts)
    assert np.array_equal(np.asarray(own), wanted)


@pytest.mark.parametrize(
    ("clipping", "model"),
    [
        ({"kind": "norm", "bound": 0.4}, Softmax(classes=2)),
        ({"kind": "residual", "bound": 0.4}, GaussianLinear()),
        ({"kind": "feature", "bound": 0.4}, Logistic()),
    ],
)
def test_every_kind_of_clipping_has_the_bits_of_a_run(clipping, model):
    dim = model.dim(DIM)
    # Bounds that these clips keep; without one, sums have no grid, and bits depend on the order of adding.
    spec = described(clipping=clipping, problem={"dim": dim, "gradient_sensitivity": 0.8, "gradient_bound": 0.4})
    X, y = rows(long=30.0)
    y = np.where(y > 0, 1, 0) if isinstance(model, Softmax) else y
    key = jax.random.key(KEY)
    chain = sordino.chain(spec, model)
    _, own = jax.jit(lambda: path(chain, key, chain.batches(key), chain.data(X, y)))()
    assert np.array_equal(np.asarray(own)[None], run(spec, model, X, y, Keyed(key[None])).iterates)


def test_a_loss_on_a_pytree_is_the_model_on_flat_parameters():
    spec, (X, y), key = described("cyclic"), rows(), secure_key()

    def loss(params, x, y):
        return jnp.log1p(jnp.exp(-y * (x[:2] @ params["slopes"] + x[2] * params["last"][0])))

    def flat(theta, x, y):
        return loss({"last": theta[:1], "slopes": theta[1:]}, x, y)

    ends = []
    start = {"last": jnp.zeros(1, jnp.float32), "slopes": np.zeros(2)}
    for model, params in ((loss, start), (JaxModel(flat, DIM), None)):
        chain = sordino.chain(spec, model)
        state, _ = path(chain, key, chain.batches(key), chain.data(X, y), params)
        ends.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.params)]))
    assert np.array_equal(*ends)


def noise_of(spec, key, model=None, **options):
    """What the steps add when every gradient is zero and nothing decays: scale times noise, step by step."""
    chain = sordino.chain(
        spec, JaxModel(lambda theta, x, y: 0.0 * theta[0], DIM) if model is None else model, **options
    )
    _, iterates = path(chain, key, chain.batches(key), chain.data(*rows()))
    return np.diff(np.asarray(iterates), axis=0, prepend=0.0)


def test_the_noise_of_a_step_is_the_one_described():
    """Exactly tau times the drawn Gaussians, whatever the schedule of steps."""
    key = jax.random.key(KEY)
    drawn = [standard_gaussians(key_for(key, Purpose.NOISE, k), (DIM,)) for k in range(STEPS)]
    assert noise_of(described("poisson"), key) == pytest.approx(0.05 * np.stack(drawn), rel=1e-12)


def test_stable_noise_in_a_step_has_the_law_described():
    """cos(u' xi) has mean exp(-|u|^alpha); 3000 chains of 6 steps: five standard errors, false alarms below 1e-6."""
    spec = described(noise={"kind": "stable", "alpha": 1.5, "scale": 0.05})
    keys = jax.random.split(jax.random.key(3), 3000)
    chain = sordino.chain(spec, JaxModel(lambda theta, x, y: 0.0 * theta[0], DIM))
    data = chain.data(*rows())
    iterates = jax.jit(jax.vmap(lambda key: path(chain, key, chain.batches(key), data)[1]))(keys)
    xi = np.diff(np.asarray(iterates), axis=1, prepend=0.0).reshape(-1, DIM) / 0.05
    for length in (0.3, 1.0):
        seen = np.cos(xi[:, 0] * length)
        assert abs(seen.mean() - math.exp(-(length**1.5))) < 5 * seen.std() / math.sqrt(len(seen))


def test_gradients_are_clipped_in_a_step():
    """One record a hundred times longer than its clip moves the sum by the clip and no more."""
    spec, key = described(), jax.random.key(KEY)
    chain = sordino.chain(spec, lambda params, x, y: 100.0 * x @ params)
    X = np.tile([1.0, 0.0, 0.0], (N, 1))
    step = jax.jit(lambda data: chain.step(key, chain.init(key), chain.batches(key)(data, 0)).params)
    ends = [np.asarray(step(chain.data(x, np.zeros(N)))) for x in (X, -X)]
    moved = ends[1] - ends[0]
    assert moved == pytest.approx([2 * 0.4 * 0.5, 0.0, 0.0], rel=1e-5)
    assert np.linalg.norm(moved) <= 2 * 0.4 * 0.5


@pytest.mark.parametrize("scheme", ["full", "poisson"])
def test_the_divisor_is_public(scheme):
    """Under add-remove the number of rows is private: a quarter of them move the chain a quarter as far."""
    spec, key = described(scheme, relation="add-remove", batch={"scheme": scheme, "size": N}), jax.random.key(KEY)
    chain = sordino.chain(spec, lambda params, x, y: x @ params)
    moved = []
    for n in (0, N // 4, N):
        data = chain.data(np.tile([0.3, 0.0, 0.0], (n, 1)), np.zeros(n))
        step = jax.jit(lambda data: chain.step(key, chain.init(key), chain.batches(key)(data, 0)).params)
        moved.append(np.asarray(step(data)))
    assert moved[1] - moved[0] == pytest.approx((moved[2] - moved[0]) / 4, abs=1e-12)
    assert moved[2][0] - moved[0][0] == pytest.approx(-0.4 * 0.3, rel=1e-5)


def test_the_sums_of_a_step_are_exact():
    """Replayed with one record replaced, no step moves by more than the spec says; the last bit included."""
    spec = described("cyclic")
    model, (X, y), recorder = Logistic(), rows(long=9.0), Recorder()
    Z = X.copy()
    Z[5] = -3.0 * X[5]

    def of(table):
        def played(source):
            chain = dataclasses.replace(sordino.chain(spec, model), port=source().port)
            key = jax.random.key(KEY)
            state, _ = jax.jit(lambda: path(chain, key, chain.batches(key), chain.data(table, y)))()
            return np.asarray(state.params)

        return played

    first = recorder.record(of(X), 0)
    second = recorder.replay(first, of(Z))
    assert second.faults == ()
    assert len(first.calls) == len(second.calls) == STEPS
    apart = [
        float(np.linalg.norm(one.call.statistic - other.call.statistic))
        for one, other in zip(first.calls, second.calls, strict=True)
    ]
    assert 0.5 < max(apart) <= 1.0
    assert sum(distance > 0 for distance in apart) == 2  # record 5 is in the first batch of each of two passes


NOT_PURE = {Scheme.RANDOM_ALLOCATION, Scheme.MIN_SEPARATION}


@pytest.mark.parametrize("scheme", sorted(NOT_PURE))
def test_schemes_that_follow_each_record_are_refused(scheme):
    with pytest.raises(InputError, match="pure chain"):
        sordino.chain(described(scheme), Logistic()).batches(jax.random.key(0))


@pytest.mark.every(2)
@pytest.mark.parametrize("scheme", sorted(set(Scheme) - {Scheme.FULL, *NOT_PURE}))
def test_the_schemes_draw_what_they_are_called(scheme):
    chain = sordino.chain(described(scheme), Logistic())
    data = chain.data(*rows())

    def drawn(key):
        draw = chain.batches(key)
        return jax.vmap(lambda k: dataclasses.astuple(draw(data, k))[1:3])(jnp.arange(10))

    keys = jax.random.split(jax.random.key(5), 400)
    # Whole numbers, the same at any level of optimisation; at the usual one this program takes seconds to compile.
    compiled = jax.jit(jax.vmap(drawn), compiler_options={"xla_backend_optimization_level": 1})
    listed, counts = map(np.asarray, compiled(keys))
    passes = [np.sort(listed[0, first : first + 5].ravel()) for first in (0, 5)]
    if scheme == Scheme.WITH_REPLACEMENT:
        # 32,000 uniform records, 800 of each expected: five standard errors for each of 40 records.
        assert (counts == 8).all()
        assert (np.abs(np.bincount(listed.ravel(), minlength=N) - 800) < 5 * math.sqrt(800)).all()
        assert any(len(set(one)) < 8 for one in listed.reshape(-1, 8))
        return
    if scheme == Scheme.TRUNCATED_POISSON:
        assert counts.max() == 16
        assert abs((counts == 16).mean() - stats.binom.sf(15, N, 0.2)) < 5 * math.sqrt(0.004 / 4000)
        return
    if scheme == Scheme.POISSON:
        # 160,000 indicators of probability 1/5: five standard errors, false alarms below 1e-6.
        assert abs(counts.mean() / N - 0.2) < 5 * math.sqrt(0.16 / (4000 * N))
        assert abs(counts.var() - N * 0.16) < 5 * N * 0.16 * math.sqrt(2 / 4000)
        return
    assert (counts == 8).all()
    assert all(len(set(one)) == 8 for one in listed.reshape(-1, 8))
    assert all((one == np.arange(N)).all() for one in passes) == (scheme != Scheme.WITHOUT_REPLACEMENT)
    assert (listed[0, :5] == listed[0, 5:]).all() == (scheme in {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})
    if scheme == Scheme.CYCLIC:
        assert (listed[0, 0] == np.arange(8)).all()
        return
    # Each record is in a first batch with probability 1/5: 400 keys, five standard errors for each of 40 records.
    shares = np.bincount(listed[:, 0].ravel(), minlength=N) / 400
    assert (np.abs(shares - 0.2) < 5 * math.sqrt(0.16 / 400)).all()


def test_a_partial_last_batch_keeps_the_divisor():
    chain = sordino.chain(described(batch={"scheme": "cyclic", "size": 16}), Logistic())
    draw, data = chain.batches(jax.random.key(0)), chain.data(*rows())
    assert [int(draw(data, k).count) for k in range(4)] == [16, 16, 8, 16]


def finite(spec):
    return [bound.theorem for bound, epsilon in sordino.certify(spec).bounds if math.isfinite(epsilon)]


CONVEX = {"strong_convexity": 0.1, "smoothness": 1.0}


def test_secure_keys_and_the_specs_batches_keep_the_spec():
    spec = described("without-replacement", view="last-iterate", problem=CONVEX)
    chain = sordino.chain(spec, Logistic())
    state = chain.init(secure_key())
    assert chain.certified_spec(state) is spec
    assert chain.cautions(state) == ()
    assert any(not name.startswith("composition.") for name in finite(spec))


class Descent:
    """A gradient transformation in optax's form."""

    def init(self, params):
        return jnp.zeros((), jnp.int32)

    def update(self, gradients, state, params=None):
        return jax.tree.map(lambda leaf: -0.1 * leaf, gradients), state + 1


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ({}, jax.random.key(0), "NON-PRIVATE"),
        ({"own_batches": True}, None, "The caller chose the batches"),
        ({"optimiser": Descent()}, None, "optimiser"),
    ],
)
def test_own_keys_batches_and_optimisers_leave_only_composition(options, key, words):
    spec = described("without-replacement", view="last-iterate", problem=CONVEX)
    chain = sordino.chain(spec, Logistic(), **options)
    state = chain.init(secure_key() if key is None else key)
    certified = chain.certified_spec(state)
    names = finite(certified)
    assert names
    # The path of full batches is composed of the same Gaussian steps.
    assert {name.split(".")[0] for name in names if name != "langevin.path"} == {"composition"}
    # A record in every batch of 8, against the same noise: as far as theta moves over tau, at every step.
    steps = 0.4 * ((np.arange(STEPS) + 3) / 3) ** -0.5
    mu = math.sqrt(sum((eta * 1.0 / 8 / 0.05) ** 2 for eta in steps))
    exact = sordino.accounting.GaussianDP(mu).epsilon(1e-5)
    assert exact <= sordino.certify(certified).epsilon <= 1.001 * exact
    assert sordino.certify(certified).epsilon > sordino.certify(spec).epsilon
    assert [sentence for sentence in chain.cautions(state) if words in sentence]


def test_own_batches_take_any_rows_and_an_optimiser_gets_the_noised_gradient():
    spec, key = described("cyclic"), secure_key()
    X, y = rows()
    plain = sordino.chain(spec, Logistic())
    drawn = jax.jit(lambda: plain.step(key, plain.init(key), plain.batches(key)(plain.data(X, y), 0)))()
    own = sordino.chain(spec, Logistic(), own_batches=True)
    assert np.array_equal(jax.jit(lambda: own.step(key, own.init(key), (X[:8], y[:8])))().params, drawn.params)
    moved = sordino.chain(spec, Logistic(), own_batches=True, optimiser=Descent())
    state = jax.jit(lambda: moved.step(key, moved.init(key), (X[:8], y[:8])))()
    assert state.optimiser == 1
    assert np.asarray(state.params) == pytest.approx(np.asarray(drawn.params) / 4, rel=1e-12)


def test_a_start_of_ones_own_takes_away_what_reads_the_start():
    growth = {"gradient_growth": {"g0": 1.0, "g1": 0.5, "at_zero": 0.5}}
    chain = sordino.chain(described(problem=growth, clipping=None), Logistic())
    key = secure_key()
    assert chain.certified_spec(chain.init(key)).problem.gradient_growth is not None
    assert chain.certified_spec(chain.init(key, jnp.ones(DIM))).problem.gradient_growth is None


def test_steps_beyond_the_spec_give_nothing():
    chain, key = sordino.chain(described(), Logistic()), jax.random.key(0)
    state, _ = path(chain, key, chain.batches(key), chain.data(*rows()))
    assert np.isfinite(state.params).all()
    beyond = jax.jit(lambda state: chain.step(key, state, chain.batches(key)(chain.data(*rows()), 0)).params)
    assert np.isnan(beyond(state)).all()


def test_the_start_is_the_specs_and_inside_the_ball():
    spec = described(start={"kind": "gaussian", "scale": 5.0}, projection={"kind": "ball", "radius": 0.1})
    begin = jax.jit(sordino.chain(spec, Logistic()).init)
    first, second = (begin(secure_key()).params for _ in range(2))
    assert not np.array_equal(first, second)
    assert np.linalg.norm(first) == pytest.approx(0.1, rel=1e-5)
    assert np.linalg.norm(first) <= 0.1
    at = sordino.chain(described(start={"kind": "point", "values": [1.0, 2.0, 3.0]}), Logistic())
    assert at.init(secure_key()).params.tolist() == [1.0, 2.0, 3.0]


REFUSED = {
    "init and step need the same": lambda c: c.chain.step(c.other, c.state, c.chain.batches(c.other)(c.data, 0)),
    "init and batches need the same": lambda c: c.chain.step(c.key, c.state, c.chain.batches(c.other)(c.data, 0)),
    "draw it with batches": lambda c: c.chain.step(c.key, c.state, rows()),
    "This chain has own_batches": lambda c: c.own.batches(c.key),
    "at least one row": lambda c: c.own.step(c.key, c.state, (np.zeros((0, DIM)), np.zeros(0))),
    "problem.dim = 3": lambda c: c.chain.init(c.key, jnp.zeros(4)),
    "wrap_key_data": lambda c: c.chain.init(jax.random.PRNGKey(0)),
    "problem.n = 40": lambda c: c.chain.data(*rows(41)),
    "batches of fixed size": lambda c: sordino.chain(described("cyclic", relation="add-remove"), Logistic()).data(
        *rows(41)
    ),
    "which has its own": lambda c: sordino.chain(described(), Logistic(), weight_decay=0.1),
    "regulariser.strong_convexity": lambda c: sordino.chain(
        described(problem={"regulariser": {"strong_convexity": 0.5, "smoothness": 0.5}}), Logistic()
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(words):
    chain, key = sordino.chain(described(), Logistic()), jax.random.key(0)
    own = sordino.chain(described(), Logistic(), own_batches=True)
    case = SimpleNamespace(
        chain=chain, own=own, key=key, other=secure_key(), state=chain.init(key), data=chain.data(*rows())
    )
    with pytest.raises(InputError, match=words):
        REFUSED[words](case)


def test_numbers_of_32_bits_are_refused():
    chain, data = sordino.chain(described(), Logistic()), rows()
    with jax.enable_x64(False):
        for call in (lambda: chain.init(jax.random.key(0)), lambda: chain.data(*data)):
            with pytest.raises(InputError, match="jax_enable_x64"):
                call()


def test_composition_only_rounds_up():
    spec = described("cyclic", problem={"gradient_sensitivity": 0.1}, batch={"scheme": "cyclic", "size": 7})
    grown = composition_only(spec).problem.gradient_sensitivity
    assert grown.value >= 0.1 * N / 7
    assert grown.value == pytest.approx(0.1 * N / 7, rel=1e-14)
    assert "every batch" in grown.reason
