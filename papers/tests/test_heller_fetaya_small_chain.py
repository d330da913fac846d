"""A small network audited from end to end: a canary made against an ensemble, hundreds of models, two datasets.

Every model of both datasets runs in one compiled program.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from papers.heller_fetaya.canaries import ensemble_decision, inside_domain
from sordino.accounting.evaluate import explain
from sordino.auditing.experiment import ChainFit, Claim, audit_by_attack, model_scores
from sordino.auditing.instance import deepfool
from sordino.auditing.lower_bound import AuditOptions, VerdictKind, verdict
from sordino.core.bound import Relation, View
from sordino.core.spec import Clipping, ClippingKind, Spec
from sordino.data.neighbours import Dataset, EncodedRecord, neighbours
from sordino.models import Domain, MLPClassification

CLIPPING = Clipping(ClippingKind.NORM, 1.0)
DOMAIN = Domain(4, 2.0, classes=2)
N = 40
MODELS = 800


@dataclass(frozen=True)
class Traced(MLPClassification):
    traces: ClassVar[list[int]] = []

    def record_gradients(self, theta, X, Y, sizes=None):
        self.traces.append(1)
        return super().record_gradients(theta, X, Y, sizes)


MODEL = Traced(hidden=(6,), classes=2, weight_decay=0.01)


def described(noise, clipping=CLIPPING):
    problem = MODEL.problem(N, DOMAIN, CLIPPING)
    algorithm = {
        "kind": "noisy-gradient",
        "steps": 40,
        "step_size": 1.0,
        "noise": {"kind": "gaussian", "scale": noise},
        "batch": {"scheme": "full"},
        "clipping": None if clipping is None else {"kind": "norm", "bound": 1.0},
        "start": {"kind": "point", "values": np.random.default_rng(5).normal(0.0, 0.5, MODEL.dim(4)).tolist()},
    }
    plain = Spec.from_dict(
        {
            "algorithm": algorithm,
            "problem": {"n": N, "dim": MODEL.dim(4)},
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    return Spec(algorithm=plain.algorithm, problem=problem, relation=plain.relation, view=plain.view)


def drawn():
    rng = np.random.default_rng(0)
    labels = np.arange(N) % 2
    rows = 0.5 * rng.normal(size=(N, 4)) + 0.7 * (2 * labels[:, None] - 1) * np.array([1.0, 1.0, 0.0, 0.0])
    rows *= np.minimum(1.0, 2.0 / np.linalg.norm(rows, axis=1))[:, None]
    return Dataset(rows, labels.astype(float))


def attack(spec, seed):
    data = drawn()
    ensemble = ChainFit(described(1e-4), MODEL)(data, np.arange(MODELS // 2, dtype=np.uint64))[:5]
    inside = data.features[data.target == 1][0]
    canary = inside_domain(deepfool(MODEL, ensemble, EncodedRecord(1.2 * inside, 1.0)), DOMAIN)
    assert ensemble_decision(MODEL, ensemble, canary.features) != canary.target
    base = neighbours(data, Relation.REPLACE_ONE, 0, canary).second
    pair = neighbours(base, Relation.REPLACE_ONE, 0, EncodedRecord(canary.features, 1.0 - canary.target))
    return audit_by_attack(
        ChainFit(spec, MODEL),
        pair.first,
        pair.second,
        model_scores(MODEL, pair),
        Claim(Relation.REPLACE_ONE, View.LAST_ITERATE),
        AuditOptions(delta=0.01, models=MODELS, seed=seed),
        "network of 44 parameters, DeepFool canary with either label",
    )


@pytest.mark.slow
def test_a_private_network_stays_below_its_certificate():
    spec = described(0.3)
    found = attack(spec, 1)
    bound = explain(spec, 0.01).tightest
    assert verdict(bound, found).kind is VerdictKind.CONSISTENT


def test_a_network_with_a_twentieth_of_its_noise_is_caught():
    found = attack(described(0.015), 1)
    bound = explain(described(0.3), 0.01).tightest
    assert verdict(bound, found).kind is VerdictKind.VIOLATED


def test_both_datasets_and_all_seeds_share_one_compilation():
    attack(described(0.3), 1)
    before = len(Traced.traces)
    attack(described(0.2), 2)
    assert len(Traced.traces) == before
