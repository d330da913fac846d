"""Switches off the fused sums that XLA compiles wrongly, by an environment variable that `import sordino` sets.

On processors JAX 0.10 and 0.11 may fuse a product of matrices and the sum over its answer wrongly (jax-ml/jax 39103 and
39257): `sum((x @ ones((9, 10))) * v, axis=1)` of 512 rows is off by as much as the sum itself. XLA reads its flags when
it compiles the first program of a process. `models.clip.check_sums` refuses where that was too early.
"""

import os
import re
from importlib.util import find_spec

FLAG = "--xla_cpu_experimental_ynn_fusion_type=-reduce"
# Releases of jaxlib that know the flag; XLA ends the process at one that it does not know.
_KNOW_IT = ((0, 10, 0), (0, 11, 2))


def with_flag(flags: str, release: tuple[int, ...]) -> str:
    """XLA's flags with fused sums switched off, where this release of jaxlib knows how and nobody chose otherwise."""
    # In front: XLA reads no further than a word that is no flag, such as the usual intra_op_parallelism_threads=1.
    name = FLAG.partition("=")[0]
    return flags if name in flags or not _KNOW_IT[0] <= release <= _KNOW_IT[1] else f"{FLAG} {flags}".strip()


def installed_release() -> tuple[int, ...]:
    """The release of jaxlib by its file of versions: metadata of packages would double the time of import."""
    package = find_spec("jaxlib")
    if package is None or package.origin is None:
        return ()
    with open(os.path.join(os.path.dirname(package.origin), "version.py"), encoding="utf-8") as lines:
        stated = re.search(r'^_version = "(\d+)\.(\d+)\.(\d+)', lines.read(), re.MULTILINE)
    return tuple(map(int, stated.groups())) if stated else ()


def switch_off() -> None:
    """Set the flag in this process's environment, and change none that is there."""
    if wanted := with_flag(os.environ.get("XLA_FLAGS", ""), installed_release()):
        os.environ["XLA_FLAGS"] = wanted
