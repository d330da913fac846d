"""Mistakes in secure keys and secure randomness."""

from tests.mutations.mutation import SECURE, Mutation

_FORKS = ("tests/algorithm/test_forks.py",)
_KEYS = ("tests/algorithm/test_keys.py",)
_SOURCE = ("tests/algorithm/test_secure_randomness.py",)
IN_SECURE = (
    Mutation(
        "keys: a secure key of 32 random bits",
        "secure_key",
        'np.frombuffer(secrets.token_bytes(KEY_BYTES), "<u4")',
        'np.frombuffer(secrets.token_bytes(4) * (KEY_BYTES // 4), "<u4")',
        _KEYS,
    ),
    Mutation(
        "keys: children are draws",
        "",
        "_SPLIT, _FOLD, _BITS = 1, 2, 3",
        "_SPLIT, _FOLD, _BITS = 1, 2, 2",
        _KEYS,
    ),
    Mutation(
        "secure source: a key of 32 random bits",
        "SecureRandomness.__init__",
        "self._begin(secrets.token_bytes(KEY_BYTES))",
        "self._begin(secrets.token_bytes(4) * (KEY_BYTES // 4))",
        SECURE,
    ),
    Mutation(
        "secure source: one key for all purposes",
        "_Withheld.derived",
        'f"{use} {int(purpose)}".encode()',
        'f"{use}".encode()',
        _SOURCE,
    ),
    Mutation(
        "secure source: one key for device and host",
        "_Withheld.derived",
        'f"{use} {int(purpose)}".encode()',
        'f"{int(purpose)}".encode()',
        _SOURCE,
    ),
    Mutation(
        "secure source: eight rounds of ChaCha on the host",
        "",
        "_ROUNDS = 20",
        "_ROUNDS = 8",
        _SOURCE,
    ),
    Mutation(
        "secure source: Gaussians are given again",
        "SecureRandomness._take",
        """\
if first < self._next.get(purpose, 0):
    raise _used_before()
""",
        """\
if False:
    raise _used_before()
""",
        _SOURCE,
    ),
    Mutation(
        "secure source: generators are given again",
        "SecureRandomness.generator",
        """\
if purpose in self._started:
    raise _used_before()
""",
        """\
if False:
    raise _used_before()
""",
        _SOURCE,
    ),
    Mutation(
        "secure source: every step has the first step's noise",
        "_gaussians.some",
        "(first + number // np.uint32(per_step), zero, zero)",
        "(number // np.uint32(per_step), zero, zero)",
        _SOURCE,
    ),
    Mutation(
        "secure source: both words of a draw are the same",
        "_gaussians.some",
        "gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)",
        "gaussians_from_words(words[:_DRAWS], words[:_DRAWS], dtype)",
        _SOURCE,
    ),
    Mutation(
        "secure source: forks go on",
        "OneProcess.check_process",
        """\
if object.__getattribute__(self, "_made_in") != this_process():
    raise InputError(
        f"Expected {type(self).__name__} in the process that made it, got a fork of it, which would draw the "
        "same noise; make a new one there."
    )
""",
        """\
if False:
    raise InputError(
        f"Expected {type(self).__name__} in the process that made it, got a fork of it, which would draw the "
        "same noise; make a new one there."
    )
""",
        _FORKS,
    ),
    Mutation(
        "secure source: forks are told by their number alone",
        "this_process",
        "return os.getpid(), _Forks.number",
        "return os.getpid(), 0",
        _FORKS,
    ),
    Mutation(
        "secure source: a plain generator",
        "SecureRandomness._generator",
        "return SecureGenerator(_bit_generator()(key=key, rounds=_ROUNDS))",
        "return np.random.Generator(_bit_generator()(key=key, rounds=_ROUNDS))",
        _FORKS,
    ),
    Mutation(
        "secure source: bits keep their key in a fork",
        "_watched.__init__",
        """\
kind.__init__(self, **settings)
living.add(self)
""",
        "kind.__init__(self, **settings)",
        _FORKS,
    ),
    Mutation(
        "secure source: pieces of a step share a key",
        "SecureRandomness._of_group",
        'self._generator(purpose, f"whole numbers {group} {piece}")',
        'self._generator(purpose, f"whole numbers {group}")',
        ("tests/algorithm/test_secure_randomness.py", "-k", "piece"),
    ),
)
