"""After a fork neither side draws the other's noise, and nothing that draws secure noise is copied or pickled.

Forks are real ones, in an interpreter of their own: the tests' process has threads.
"""

import copy
import json
import pickle
import subprocess
import sys
from itertools import product

import pytest

from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, SecureRandomness
from sordino.noise.gaussian import ExactGaussians

SCRIPT = """
import ctypes, json, multiprocessing, os
import numpy as np
from sordino.mechanisms import Purpose, SecureRandomness
from sordino.noise.gaussian import ExactGaussians
from tests.noise.released import noised_sums
from sordino.core.validate import InputError

SOURCE, OTHER = SecureRandomness(), SecureRandomness()
GENERATOR = SOURCE.generator(Purpose.NOISE)
BITS = GENERATOR.bit_generator
METHOD = GENERATOR.integers
EXACT = ExactGaussians(OTHER.generator(Purpose.NOISE), 3)
WAYS = {
    "a method of the generator": lambda: GENERATOR.standard_normal(3).tolist(),
    "another method": lambda: GENERATOR.permuted(np.arange(100)).tolist(),
    "bits": lambda: GENERATOR.bit_generator.random_raw(3).tolist(),
    "bits taken before": lambda: BITS.random_raw(3).tolist(),
    "the state of bits taken before": lambda: repr(BITS.state),
    "exact Gaussians": lambda: noised_sums(np.zeros(3, np.int64), -40, 1.0, EXACT).tolist(),
    "a new generator": lambda: SOURCE.generator(Purpose.BATCHES).random(3).tolist(),
    "Gaussians of a step": lambda: SOURCE.gaussians(Purpose.NOISE, 0, 1, (3,), np.float32).tolist(),
    "what a checkpoint holds": lambda: repr(SOURCE.held()),
}

def drawn():
    found = {}
    for name, draw in WAYS.items():
        try:
            found[name] = ["drew", draw()]
        except InputError as error:
            found[name] = ["refused", str(error)]
    return found

def child(fork):
    reading, writing = os.pipe()
    if fork() == 0:
        os.write(writing, json.dumps(drawn()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.wait()
    return json.loads(text)

def report(queue):
    queue.put([drawn(), SecureRandomness().generator(Purpose.NOISE).standard_normal(3).tolist()])

found = {"fork": child(os.fork), "fork that Python did not make": child(ctypes.CDLL(None).fork)}
context = multiprocessing.get_context("fork")
queue = context.SimpleQueue()
workers = [context.Process(target=report, args=(queue,)) for _ in range(2)]
for worker in workers:
    worker.start()
forked = [queue.get() for _ in workers]
for worker in workers:
    worker.join()
found |= {f"fork of multiprocessing {k}": one[0] for k, one in enumerate(forked)}
fresh = [one[1] for one in forked]
with context.Pool(1) as pool:
    try:
        pickled = pool.apply(np.random.Generator.standard_normal, (GENERATOR,))
    except Exception as error:
        pickled = str(error)
every, WAYS = WAYS, {"a method taken before": lambda: METHOD(0, 2**62, 8).tolist()}
taken = [child(os.fork), drawn()]
WAYS, number = every, os.getpid()
os.getpid = lambda: number
found["fork with the number of its ancestor"] = child(os.fork)
print(json.dumps({"refused": found, "parent": drawn(), "fresh": fresh, "pickled": pickled, "taken": taken}))
"""


@pytest.fixture(scope="module")
def answers():
    """What happens to draws on both sides of every kind of fork, in one interpreter."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fork_is_refused_every_way_to_draw_and_its_parent_goes_on(answers):
    """Numbers of processes are given again: the count of forks tells a fork from its ancestor."""
    assert len(answers["refused"]) == 5
    for fork, ways in answers["refused"].items():
        assert len(ways) == 9
        for name, (outcome, said) in ways.items():
            assert outcome == "refused", f"a {fork} drew through {name}"
            assert "A fork would draw the same noise; make a new one there." in said
    assert {outcome for outcome, _ in answers["parent"].values()} == {"drew"}


def test_forks_draw_numbers_of_their_own(answers):
    """Nothing of ours is asked any more when a method taken before draws, so the fork gave its bits another key."""
    drawn = [set(found["a method taken before"][1]) for found in answers["taken"]]
    assert len(drawn[0] | drawn[1]) == 16
    assert not set(answers["fresh"][0]) & set(answers["fresh"][1])


def test_a_pool_that_pickles_its_work_is_refused(answers):
    assert "must stay in one process: it cannot be copied or pickled. Make a new one." in answers["pickled"]


ATTEMPTS = (
    pickle.dumps,
    copy.copy,
    copy.deepcopy,
    lambda one: pickle.dumps({"held": [one]}),
    lambda one: pickle.dumps(one, 0),
    lambda one: one.__reduce__(),
    lambda one: one.__getstate__(),
)


def test_nothing_that_draws_secure_noise_is_copied_or_pickled():
    source = SecureRandomness()
    generator = source.generator(Purpose.NOISE)
    kept = generator.bit_generator.state
    noise = [source, generator, generator.bit_generator, ExactGaussians(SecureRandomness().generator(Purpose.NOISE), 2)]
    for attempt, one in product(ATTEMPTS, noise):
        with pytest.raises(InputError, match=r"must stay in one process.*Make a new one\.$") as refused:
            attempt(one)
        assert str(kept["state"]) not in str(refused.value)
