"""Networks of a number or of a label, with a Gaussian prior on every weight."""

from typing import TYPE_CHECKING, Any, ClassVar

from sordino.core.spec.instance import NamedModel
from sordino.core.validate import refuse, whole_number
from sordino.fitting.tasks.base import ClassTask, NumberTask, TaskOption, or_none, positive, task

if TYPE_CHECKING:
    from sordino.fitting.problem import FitProblem

USUAL_HIDDEN = (16,)  # the hidden layers of a dense network where nobody says


def _widths(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple | list) or not value:
        raise refuse(name, "to be a tuple of layer widths such as (16,), or None", value)
    return tuple(whole_number(name, width) for width in value)


def _read(text: str) -> list[int | str]:
    return [int(width) if width.isdecimal() else width for width in text.split(",")]


_HELP = "Networks only: widths of the hidden layers, such as 16 or 32,16."
OPTIONS = (
    TaskOption("hidden", or_none(_widths), help=_HELP, read=_read),
    TaskOption("prior_precision", positive, 1.0),
)


def _network(name: str, problem: "FitProblem", *more: tuple[str, Any]) -> NamedModel:
    hidden, decay = problem.settings["hidden"] or USUAL_HIDDEN, problem.settings["prior_precision"] / problem.records
    return NamedModel(name, (("hidden", hidden), ("weight_decay", decay), *more))


@task
class NetworkRegression(NumberTask):
    """A number by a network."""

    word = "network-regression"
    title = "network regression"
    models: ClassVar = {"network-regressor": {}}
    methods = ("natural", "constant", "dp-vi", "dp-sep")
    options = OPTIONS
    clip = 2.0

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        return _network("mlp-regression", problem, ("noise_precision", 1.0 / residual_variance))


@task
class NetworkClassification(ClassTask):
    """A label by a network."""

    word = "network-classification"
    title = "network classification"
    models: ClassVar = {"network-classifier": {}}
    methods = ("natural", "constant", "dp-vi")
    options = OPTIONS
    clip = 1.0

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        return _network("mlp-classification", problem, ("classes", problem.classes or 2))
