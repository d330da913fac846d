"""SciPy's special functions, loaded without the parts of NumPy that they never use.

`scipy.special` imports every public name of NumPy, and with them the Fortran compiler's front end and the test tools:
a third of the time that `sordino certify` takes to start. Both are put in place here as the standard library's lazy
modules, which load in full where anything is first asked of them.
"""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

import numpy as np

_UNUSED = ("f2py", "ma", "testing")


def _defer(name: str) -> None:
    """Put a submodule of NumPy that nobody has loaded yet in place, to be loaded on first use."""
    full = f"numpy.{name}"
    spec = None if full in sys.modules else find_spec(full)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    setattr(np, name, module)


for _name in _UNUSED:
    _defer(_name)

from scipy import special  # noqa: E402, F401
