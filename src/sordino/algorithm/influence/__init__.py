"""Bounded influence: regressions from noised sums of rows that are shortened by their x alone."""

from sordino.algorithm.influence import counts as _counts  # noqa: F401  registers its families
from sordino.algorithm.influence.calibrate import widening as widening
from sordino.algorithm.influence.declaration import Declaration as Declaration
from sordino.algorithm.influence.families import FAMILIES as FAMILIES
from sordino.algorithm.influence.plan import Plan as Plan
from sordino.algorithm.influence.plan import expected as expected
from sordino.algorithm.influence.plan import plan as plan
from sordino.algorithm.influence.posterior import Posterior as Posterior
from sordino.algorithm.influence.posterior import posterior as posterior
from sordino.algorithm.influence.release import Released as Released
from sordino.algorithm.influence.release import release as release
from sordino.algorithm.influence.survival import person_bins as person_bins
from sordino.algorithm.influence.survival import with_bins as with_bins
