"""Gradients are certified as clipped and are not: one long record moves the chain as far as it likes."""

import numpy as np

from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.chains import ChainFit
from sordino.auditing.attack.experiment import Claim, LinearScore
from sordino.core.bound import Relation, View
from sordino.data.neighbours import Dataset, Record, neighbours
from sordino.models import Logistic
from tests.auditing.broken.registry import Case, case, chain, claimed, options

SPEC = chain(
    **{
        "algorithm.noise.scale": 0.04,
        "algorithm.clipping": {"kind": "residual", "bound": 1.0},
        "problem.dim": 2,
        "problem.strong_convexity": None,
        "problem.smoothness": None,
    }
)
# A run keeps to every bound that its own spec states, so the broken one states none.
UNCLIPPED = SPEC.with_values(
    {"algorithm.clipping": None, "problem.gradient_bound": None, "problem.gradient_sensitivity": None}
)


def attack(spec, asked):
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(20, 2)), rng.choice([-1.0, 1.0], 20))
    base = neighbours(data, Relation.REPLACE_ONE, 0, Record(np.array([6.0, 6.0]), 1.0)).second
    pair = neighbours(base, Relation.REPLACE_ONE, 0, Record(np.array([6.0, 6.0]), -1.0))
    return audit_by_attack(
        ChainFit(spec, Logistic()),
        pair.first,
        pair.second,
        (LinearScore(),),
        Claim(Relation.REPLACE_ONE, View.LAST_ITERATE),
        asked,
        "one record of length 8.5 with either label",
    )


@case("no clipping")
def no_clipping():
    asked = options(0.05, 2000)
    return Case(claimed(SPEC, 0.05), lambda: attack(UNCLIPPED, asked), lambda: attack(SPEC, asked))
