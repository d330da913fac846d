"""Mistakes in secure keys and secure randomness."""

from tests.mutations.mutation import SECURE, Mutation

_FORKS = ("tests/algorithm/test_forks.py",)
_KEYS = ("tests/algorithm/test_keys.py",)
_SOURCE = ("tests/algorithm/test_secure_randomness.py",)
IN_SECURE = (
    Mutation(
        "keys: a secure key of 32 random bits",
        "algorithm/noise/secure.py",
        'np.frombuffer(secrets.token_bytes(KEY_BYTES), "<u4")',
        'np.frombuffer(secrets.token_bytes(4) * (KEY_BYTES // 4), "<u4")',
        _KEYS,
    ),
    Mutation(
        "keys: children are draws",
        "algorithm/noise/secure.py",
        "_SPLIT, _FOLD, _BITS = 1, 2, 3",
        "_SPLIT, _FOLD, _BITS = 1, 2, 2",
        _KEYS,
    ),
    Mutation(
        "secure source: a key of 32 random bits",
        "algorithm/noise/secure.py",
        "self._begin(secrets.token_bytes(KEY_BYTES))",
        "self._begin(secrets.token_bytes(4) * (KEY_BYTES // 4))",
        SECURE,
    ),
    Mutation(
        "secure source: one key for all purposes",
        "algorithm/noise/secure.py",
        'f"{use} {int(purpose)}".encode()',
        'f"{use}".encode()',
        _SOURCE,
    ),
    Mutation(
        "secure source: one key for device and host",
        "algorithm/noise/secure.py",
        'f"{use} {int(purpose)}".encode()',
        'f"{int(purpose)}".encode()',
        _SOURCE,
    ),
    Mutation(
        "secure source: eight rounds of ChaCha on the host",
        "algorithm/noise/secure.py",
        "_ROUNDS = 20",
        "_ROUNDS = 8",
        _SOURCE,
    ),
    Mutation(
        "secure source: Gaussians are given again",
        "algorithm/noise/secure.py",
        "if first < self._next.get(purpose, 0):",
        "if False:",
        _SOURCE,
    ),
    Mutation(
        "secure source: generators are given again",
        "algorithm/noise/secure.py",
        "if purpose in self._started:",
        "if False:",
        _SOURCE,
    ),
    Mutation(
        "secure source: every step has the first step's noise",
        "algorithm/noise/secure.py",
        "(first + number // np.uint32(per_step), zero, zero)",
        "(number // np.uint32(per_step), zero, zero)",
        _SOURCE,
    ),
    Mutation(
        "secure source: both words of a draw are the same",
        "algorithm/noise/secure.py",
        "gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)",
        "gaussians_from_words(words[:_DRAWS], words[:_DRAWS], dtype)",
        _SOURCE,
    ),
    Mutation(
        "secure source: forks go on",
        "algorithm/noise/randomness.py",
        'if object.__getattribute__(self, "_made_in") != this_process():',
        "if False:",
        _FORKS,
    ),
    Mutation(
        "secure source: forks are told by their number alone",
        "algorithm/noise/randomness.py",
        "return os.getpid(), _Forks.number",
        "return os.getpid(), 0",
        _FORKS,
    ),
    Mutation(
        "secure source: a plain generator",
        "algorithm/noise/secure.py",
        "return SecureGenerator(_bit_generator()(key=key, rounds=_ROUNDS))",
        "return np.random.Generator(_bit_generator()(key=key, rounds=_ROUNDS))",
        _FORKS,
    ),
    Mutation(
        "secure source: bits keep their key in a fork",
        "algorithm/noise/secure.py",
        "        living.add(self)\n",
        "",
        _FORKS,
    ),
)
