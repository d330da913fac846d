"""Private regression: noisy Newton steps on weighted rows, from released gradients, slopes and squares of scores.

Sizes are released before anything is cut, every point has a released gradient and released slopes, and intervals are
a sandwich of released slopes and squares of scores, noise included. Public rows only say how slopes bend and what
hidden ones are drawn to. So intervals cover on tables that nobody tuned for; where little is known they are wide, and
coefficients that depend on the prior are marked. Only `release` sees rows:

    declared = Declaration(low, high, kinds, groups, target=(0.0, 100.0), effect_scale=None)
    made = plan("linear", declared, records, Relation.REPLACE_ONE, epsilon, delta)   # made.mechanisms, made.spent
    found = release(made, X, y, randomness, exposure=None, unit=None)                # found.sums: all that leaves
    law = posterior(made, found)         # law.mean, .deviation, .interval(0.95), .shares, .far

Where to look: `statistics` has every released sum with its sensitivity and proof, `plan` the budget and its shares,
`first_answers` and `learn` the order of a fit, `noised` how histograms and matrices are read, `posterior` and `prior`
what is made of the answers, `families` and `survival` what targets say, `rows` units, weights and rounds.
"""

from sordino.mechanisms.regression.declaration import Declaration as Declaration
from sordino.mechanisms.regression.plan import Plan as Plan
from sordino.mechanisms.regression.plan import plan as plan
from sordino.mechanisms.regression.posterior import Posterior as Posterior
from sordino.mechanisms.regression.posterior import posterior as posterior
from sordino.mechanisms.regression.release import Released as Released
from sordino.mechanisms.regression.release import release as release
from sordino.mechanisms.regression.survival import person_bins as person_bins
from sordino.mechanisms.regression.survival import with_bins as with_bins
