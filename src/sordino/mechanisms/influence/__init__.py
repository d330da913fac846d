"""Bounded influence: regressions from noised sums of rows that are shortened by their x alone.

A record pulls with w(x) z psi(y, z't), z the whitened row. Weights see x and psi is bounded in y, so no product of row
and residual is ever cut, and the estimating equation stays unbiased whatever the weights are (Mallows' weights;
Avella-Medina 2021; Cantoni & Ronchetti 2001 for counts). Released, each a Gaussian mechanism on exact sums with exact
noise: centre, spreads and scatter of columns, the target's place and scale, gradients at a few points, curvature and
meat. One posterior reads all of it, noise included.

How to use it. Four plain functions; only `release` sees rows:

    declared = Declaration(low, high, kinds, groups, target=(0.0, 100.0), effect_scale=None)
    made = plan("linear", declared, records, Relation.REPLACE_ONE, epsilon, delta)   # reads no row
    expected(made)                       # widths to expect: .sampling, .privacy, .posterior, .refused
    made.mechanisms, made.spent          # multipliers of all Gaussian mechanisms; mu of their composition
    found = release(made, X, y, randomness, exposure=None, unit=None)                # Released.sums: all that leaves
    law = posterior(made, found)         # law.mean, .deviation, .interval(0.95), .sampling/.privacy/.prior shares
    law.in_table_units()                 # weighted draws in the table's units

`widening(made)` simulates the mechanism on drawn tables and says by how much to widen intervals; pass it to
`posterior(..., widening=...)`. A posterior is a function of the plan and `Released.sums` alone, so a release that
was written to a file (the sums and the plan's arguments) is read again to the same draws.

Coefficients are in encoded units, intercept first: a number's is the effect of half its declared range, a 0/1 column's
the effect of having it; the target is in its own units. With several classes the contrasts with class 0 are innermost.
Units: with `Declaration(unit=True)` rows of a unit count as one, `records` is the number of units, and the noise is
that of one row a unit. Families are in `FAMILIES`; a new one is a class that is registered there.

Where to look: `sums` has every sensitivity and its proof, `plan` the budget, `readings` and `whitening` what is made
of the first answers, `evidence` the model of all answers, `effects` the prior, `slopes` what is left open, `posterior`
draws and shares, `families`, `classes` and `counts` what targets say, `survival` Cox regression by time bins.
"""

from sordino.mechanisms.influence import classes as _classes  # noqa: F401  registers its families
from sordino.mechanisms.influence import counts as _counts  # noqa: F401
from sordino.mechanisms.influence.calibrate import widening as widening
from sordino.mechanisms.influence.declaration import Declaration as Declaration
from sordino.mechanisms.influence.families import FAMILIES as FAMILIES
from sordino.mechanisms.influence.plan import Plan as Plan
from sordino.mechanisms.influence.plan import expected as expected
from sordino.mechanisms.influence.plan import plan as plan
from sordino.mechanisms.influence.posterior import Posterior as Posterior
from sordino.mechanisms.influence.posterior import posterior as posterior
from sordino.mechanisms.influence.release import Released as Released
from sordino.mechanisms.influence.release import release as release
from sordino.mechanisms.influence.survival import person_bins as person_bins
from sordino.mechanisms.influence.survival import with_bins as with_bins
