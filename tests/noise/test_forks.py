"""After a fork neither side draws the other's noise, and nothing that draws secure noise is copied or pickled.

Forks are real ones, in an interpreter of their own: the tests' process has threads.
"""

import copy
import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, SecureRandomness
from sordino.noise.exact import ExactGaussians
from sordino.noise.sums import noised_sums

PRELUDE = """
import ctypes, json, multiprocessing, os, sys
import numpy as np
from sordino.mechanisms import Purpose, SecureRandomness
from sordino.noise.exact import ExactGaussians
from sordino.noise.sums import noised_sums
from sordino.core.validate import InputError

SOURCE, OTHER = SecureRandomness(), SecureRandomness()
GENERATOR = SOURCE.generator(Purpose.NOISE)
BITS = GENERATOR.bit_generator
METHOD = GENERATOR.integers
EXACT = ExactGaussians.of(OTHER, 3)
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

"""


def answers(script: str):
    """What a script in its own interpreter prints as JSON, after a prelude that draws before any fork."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_refused(child):
    assert len(child) == 9
    for name, (outcome, said) in child.items():
        assert outcome == "refused", f"a fork drew through {name}"
        assert "a fork of it, which would draw the same noise; make a new one there." in said


def test_a_fork_is_refused_every_way_to_draw_and_its_parent_goes_on():
    forked, parent = answers(
        """
        forked = child(os.fork)
        print(json.dumps([forked, drawn()]))
        """
    )
    assert_refused(forked)
    assert {outcome for outcome, _ in parent.values()} == {"drew"}


def test_a_method_taken_before_a_fork_draws_other_numbers_in_it():
    """Nothing of ours is asked any more when it draws, so the fork gave its bits another key."""
    forked, parent = answers(
        """
        WAYS = {"a method taken before": lambda: METHOD(0, 2**62, 8).tolist()}
        print(json.dumps([child(os.fork), drawn()]))
        """
    )
    drawn = [set(found["a method taken before"][1]) for found in (forked, parent)]
    assert len(drawn[0] | drawn[1]) == 16


def test_a_fork_of_multiprocessing_is_refused_too_and_draws_its_own_noise():
    forked, fresh = answers(
        """
        def report(queue):
            queue.put([drawn(), SecureRandomness().generator(Purpose.NOISE).standard_normal(3).tolist()])

        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        workers = [context.Process(target=report, args=(queue,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        found = [queue.get() for _ in workers]
        for worker in workers:
            worker.join()
        print(json.dumps([[one[0] for one in found], [one[1] for one in found]]))
        """
    )
    for one in forked:
        assert_refused(one)
    assert not set(fresh[0]) & set(fresh[1])


def test_a_fork_that_python_did_not_make_is_refused():
    assert_refused(answers("print(json.dumps(child(ctypes.CDLL(None).fork)))"))


def test_a_fork_with_the_number_of_its_ancestor_is_refused():
    """Numbers of processes are given again: the count of forks tells them apart."""
    forked = answers(
        """
        number = os.getpid()
        os.getpid = lambda: number
        print(json.dumps(child(os.fork)))
        """
    )
    assert_refused(forked)


def test_a_pool_that_pickles_its_work_is_refused():
    said = answers(
        """
        with multiprocessing.get_context("fork").Pool(1) as pool:
            try:
                print(json.dumps(pool.apply(np.random.Generator.standard_normal, (GENERATOR,))))
            except Exception as error:
                print(json.dumps(str(error)))
        """
    )
    assert "to stay in one process, got an attempt to copy or pickle it; make a new one." in said


ATTEMPTS = {
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickled inside": lambda one: pickle.dumps({"held": [one]}),
    "oldest pickle": lambda one: pickle.dumps(one, 0),
    "reduce": lambda one: one.__reduce__(),
    "state": lambda one: one.__getstate__(),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_nothing_that_draws_secure_noise_is_copied_or_pickled(attempt):
    source = SecureRandomness()
    generator = source.generator(Purpose.NOISE)
    kept = generator.bit_generator.state
    for one in (source, generator, generator.bit_generator, ExactGaussians.of(SecureRandomness(), 2)):
        with pytest.raises(InputError, match=r"to stay in one process.*make a new one\.$") as refused:
            ATTEMPTS[attempt](one)
        assert str(kept["state"]) not in str(refused.value)


def test_exact_gaussians_of_a_seed_are_used_once_too():
    noise = ExactGaussians(np.random.default_rng(0), 2)
    with pytest.raises(InputError, match="one process"):
        copy.deepcopy(noise)
    assert noised_sums(np.zeros(2, np.int64), -40, 1.0, noise).shape == (2,)
