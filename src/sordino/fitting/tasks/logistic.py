"""Logistic regression: the log odds of a class are linear in the columns; softmax regression of several classes."""

from typing import TYPE_CHECKING, ClassVar

from sordino.core.spec.instance import NamedModel
from sordino.fitting.tasks.base import EFFECT_SCALE, task
from sordino.fitting.tasks.targets import ClassTask

if TYPE_CHECKING:
    from sordino.fitting.problem import FitProblem


@task
class Logistic(ClassTask):
    """A label whose log odds against the first one are linear."""

    word = "classification"
    title = "logistic regression"
    models: ClassVar = {"logistic": {}}
    methods = ("bounded-influence", "ridge", "constant", "dp-vi", "dp-sep")
    options = (EFFECT_SCALE,)
    ratio = "odds ratio"
    linear = True
    scored = True

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        if problem.classes == 2:
            return NamedModel("logistic")
        return NamedModel("softmax", (("classes", problem.classes or 2),))

    def family(self, problem: "FitProblem") -> str:
        return "logistic" if problem.classes == 2 else "multinomial"

    def gradient_clip(self, problem: "FitProblem") -> float:
        return 0.6 * problem.row_norm
