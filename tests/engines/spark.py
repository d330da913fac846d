"""Sessions of Spark that tests start beside JAX."""

import warnings
from typing import Any


def started(builder: Any) -> Any:
    """The session of a builder; JAX warns of any fork, and this one becomes Java at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        return builder.config("spark.ui.enabled", "false").getOrCreate()
