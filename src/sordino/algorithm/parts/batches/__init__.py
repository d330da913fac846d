"""Batch schemes: which records each step of each chain uses. Importing this package registers them all."""

from sordino.algorithm.parts.batches import passes as passes
from sordino.algorithm.parts.batches import poisson as poisson
from sordino.algorithm.parts.batches import subsets as subsets
from sordino.algorithm.parts.batches.base import BatchBlock as BatchBlock
from sordino.algorithm.parts.batches.base import Batches as Batches
from sordino.algorithm.parts.batches.base import BatchState as BatchState
from sordino.algorithm.parts.batches.base import Sampling as Sampling
from sordino.algorithm.parts.batches.base import batches_for as batches_for
