"""Mistakes in secure keys and secure randomness."""

from tests.mutations.mutation import mutations

IN_SECURE = mutations(
    """
@@ keys: a secure key of 32 random bits | secure_key | noise/test_keys.py
- np.frombuffer(secrets.token_bytes(KEY_BYTES), "<u4")
+ np.frombuffer(secrets.token_bytes(4) * (KEY_BYTES // 4), "<u4")
@@ keys: children are draws |  | noise/test_keys.py
- _SPLIT, _FOLD, _BITS = 1, 2, 3
+ _SPLIT, _FOLD, _BITS = 1, 2, 2
@@ secure source: a key of 32 random bits | SecureRandomness.__init__ | estimators/test_secure_mode.py
- self._begin(secrets.token_bytes(KEY_BYTES))
+ self._begin(secrets.token_bytes(4) * (KEY_BYTES // 4))
@@ secure source: one key for all purposes | _Withheld.derived | noise/test_secure_randomness.py
- f"{use} {int(purpose)}".encode()
+ f"{use}".encode()
@@ secure source: one key for device and host | _Withheld.derived | noise/test_secure_randomness.py
- f"{use} {int(purpose)}".encode()
+ f"{int(purpose)}".encode()
@@ secure source: eight rounds of ChaCha on the host |  | noise/test_secure_randomness.py
- _ROUNDS = 20
+ _ROUNDS = 8
@@ secure source: Gaussians are given again | SecureRandomness._take | noise/test_secure_randomness.py
- first < self._next.get(purpose, 0)
+ False
@@ secure source: generators are given again | SecureRandomness.generator | noise/test_secure_randomness.py
- purpose in self._started
+ False
@@ secure source: every step has the first step's noise | _gaussians.some | noise/test_secure_randomness.py
- (first + number // np.uint32(per_step), zero, zero)
+ (number // np.uint32(per_step), zero, zero)
@@ secure source: both words of a draw are the same | _gaussians.some | noise/test_secure_randomness.py
- gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)
+ gaussians_from_words(words[:_DRAWS], words[:_DRAWS], dtype)
@@ secure source: forks go on | OneProcess.check_process | noise/test_forks.py
- object.__getattribute__(self, "_made_in") != this_process()
+ False
@@ secure source: forks are told by their number alone | this_process | noise/test_forks.py
- return os.getpid(), len(_forks)
+ return os.getpid(), 0
@@ secure source: a plain generator | SecureRandomness._generator | noise/test_forks.py
- return SecureGenerator(_bit_generator()(key=key, rounds=_ROUNDS))
+ return np.random.Generator(_bit_generator()(key=key, rounds=_ROUNDS))
@@ secure source: bits keep their key in a fork | _watched.__init__ | noise/test_forks.py
  kind.__init__(self, **settings)
- living.add(self)
@@ secure source: pieces of a step share a key | SecureRandomness._of_group | noise/test_secure_randomness.py -k piece
- self._generator(purpose, f"whole numbers {part[0]} {part[1]}")
+ self._generator(purpose, f"whole numbers {part[0]}")
"""
)
