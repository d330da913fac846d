"""The spec of a network's chain, so that what is audited is what is certified."""

from sordino.audit.fleet.plan import FanInStart, FleetPlan
from sordino.core.relation import Relation
from sordino.core.spec import Clipping, ClippingKind, ConstantSchedule, GaussianNoise, NoisyGradient, PointStart, Spec
from sordino.core.view import View
from sordino.model.base import Model
from sordino.model.domain import Domain


def described_chain(model: Model, domain: Domain, plan: FleetPlan, records: int, epochs: int) -> Spec:
    """The first epochs of a plan as a spec: replace-one, last iterate.

    A start by fan-in is written as a point: it is drawn without the data, so a guarantee for every point is one for it.
    """
    clipping = None if plan.clip_norm is None else Clipping(ClippingKind.NORM, plan.clip_norm)
    chain = NoisyGradient(
        steps=epochs * plan.steps_per_epoch(records),
        step_size=ConstantSchedule(plan.step_size),
        noise=GaussianNoise(ConstantSchedule(plan.noise_scale)),
        batch=plan.batch,
        clipping=clipping,
        start=PointStart() if isinstance(plan.start, FanInStart) else plan.start,
    )
    problem = model.problem(records, domain, clipping)
    return Spec(algorithm=chain, problem=problem, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE)
