"""What a spec claims about the update has to hold for the model that runs it."""

from sordino.core.spec import Spec
from sordino.core.validate import refuse
from sordino.model.base import Model


def check_regulariser(spec: Spec, model: Model) -> None:
    """Refuse a spec that claims another weight decay, or a better prior, than the model has.

    A chain is certified from its spec, so a spec written for a stronger regulariser would certify what does not run.
    A model that certifies nothing about its penalty leaves the claim to whoever declared it.
    """
    claimed = None if spec.problem is None else spec.problem.regulariser
    held = model.regulariser_certificates()
    if claimed is None or "regulariser.strong_convexity" not in held:
        return
    convexity, smoothness = held["regulariser.strong_convexity"].value, held["regulariser.smoothness"].value
    if claimed.strong_convexity.value > convexity:
        raise refuse(
            "problem.regulariser.strong_convexity",
            f"to be at most the model's {convexity!r}",
            claimed.strong_convexity.value,
        )
    if claimed.smoothness.value < smoothness:
        raise refuse(
            "problem.regulariser.smoothness", f"to be at least the model's {smoothness!r}", claimed.smoothness.value
        )
