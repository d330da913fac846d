"""One record less shifts every later batch of a cyclic pass, but add-remove is claimed as if one batch changed."""

import numpy as np

from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.chains import ChainFit, ConstantPull
from sordino.auditing.attack.experiment import Claim, LinearScore
from sordino.core.bound import Bound, Citation, Relation, Status, View
from sordino.core.guarantee import GaussianDP
from sordino.data.neighbours import Dataset, Record, neighbours
from tests.auditing.broken.registry import Case, case, chain, claimed, options

CHANGES = {
    "algorithm.steps": 20,
    "algorithm.step_size": 1.0,
    "algorithm.noise.scale": 2.0,
    "algorithm.batch": {"scheme": "cyclic", "size": 1},
    "problem.strong_convexity": None,
    "problem.smoothness": None,
    "view": "all-iterates",
}
INSERTED = chain(**CHANGES, relation="add-remove")
REPLACED = chain(**CHANGES)
# One use of a gradient of length 1 under noise 2, as for a record that comes or goes without moving the others.
NAIVE = Bound(
    GaussianDP(0.5),
    Relation.ADD_REMOVE,
    View.ALL_ITERATES,
    (),
    "cyclic batches claimed under add-remove",
    Citation("dong2022gaussian", "Corollary 3.3"),
    Status.OURS,
)


def attack(spec, record, asked):
    data = Dataset(np.resize([1.0, -1.0], (20, 1)), np.zeros(20))
    pair = neighbours(data, spec.relation, 0, record)
    claim = Claim(spec.relation, spec.view)
    scores = (LinearScore(),)
    return audit_by_attack(ChainFit(spec, ConstantPull()), pair.first, pair.second, scores, claim, asked, "alternating")


@case("add-remove claimed for cyclic batches")
def cyclic_add_remove():
    asked = options(0.05, 2000)
    turned = Record(np.array([-1.0]), 0.0)
    return Case(
        NAIVE,
        lambda: attack(INSERTED, None, asked),
        lambda: attack(REPLACED, turned, asked),
        claimed(REPLACED, 0.05),
    )
