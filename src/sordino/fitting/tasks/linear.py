"""Scores that are linear in the columns: the mean of a number, also by Huber's loss, and the log odds of classes."""

from typing import TYPE_CHECKING, ClassVar

from sordino.core.spec.instance import NamedModel
from sordino.fitting.tasks.base import EFFECT_SCALE, NO_DECAY, ClassTask, NumberTask, task

if TYPE_CHECKING:
    from sordino.fitting.problem import FitProblem

# The engine cuts residuals at a released scale; what a release states of its model is the usual threshold.
_THRESHOLD = 0.3


@task
class LinearTask(NumberTask):
    """A number by the square of its residual, or by Huber's loss of it."""

    word = "regression"
    title = "linear regression"
    models: ClassVar = {"linear": {}}
    methods = ("bounded-influence", "ridge", "constant", "dp-vi", "dp-sep")
    options = (EFFECT_SCALE,)
    linear = True
    clip = 10.0
    scored = True
    loss: ClassVar[str] = "squared"

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        if self.loss == "huber":
            return NamedModel("huber", (NO_DECAY, ("threshold", _THRESHOLD)))
        return NamedModel("ridge", (NO_DECAY, ("noise_precision", 1.0 / residual_variance)))

    def family(self, problem: "FitProblem") -> str:
        return "robust" if self.loss == "huber" else "linear"


@task
class RobustTask(LinearTask):
    """The same with Huber's loss."""

    word = "robust-regression"
    title = "robust regression"
    models: ClassVar = {"robust": {}}
    methods = ("bounded-influence", "constant")
    loss = "huber"


@task
class LogisticTask(ClassTask):
    """A label whose log odds against the first one are linear."""

    word = "classification"
    title = "logistic regression"
    models: ClassVar = {"logistic": {}}
    methods = ("bounded-influence", "ridge", "constant", "dp-vi", "dp-sep")
    options = (EFFECT_SCALE,)
    ratio = "odds ratio"
    linear = True
    clip = 0.6
    scored = True

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        if problem.classes == 2:
            return NamedModel("logistic", (NO_DECAY,))
        return NamedModel("softmax", (NO_DECAY, ("classes", problem.classes or 2)))

    def family(self, problem: "FitProblem") -> str:
        return "logistic" if problem.classes == 2 else "multinomial"
