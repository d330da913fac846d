"""The one array alias: numbers in double precision, of any shape."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
