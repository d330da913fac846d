"""What can be learned, by the words of releases and of `fit`; a new file in this folder is found by itself."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from sordino.core.validate import InputError
from sordino.fitting.tasks.base import MODELS as MODELS
from sordino.fitting.tasks.base import TASKS as TASKS
from sordino.fitting.tasks.base import Task as Task

# The words of `fit` are listed in this order: models of numbers and of labels first.
for _name in dict.fromkeys(("linear", "logistic", *(found.name for found in iter_modules(__path__)))):
    import_module(f"{__name__}.{_name}")

AUTO, AUTO_OR_CONSTANT, FALLBACK = "auto", "auto-or-constant", "constant"
# Draws of the posterior that predictions average over.
DRAWS = 256
# In the settings of a release: what was asked for, so that the run can be planned again.
ASKED = "asked"
# In the settings of a release: the error that its plan expected, over that of the best constant.
EXPECTED_ERROR = "expected_error_over_constant"
Begin = Callable[[str], None]


def ignore_progress(_stage: str) -> None:
    """Leaves the name of a stage unsaid."""


def task_of(settings: Mapping[str, Any]) -> Task | None:
    """The task that a release was fitted for, as its settings say; None of a look, a check or a chain."""
    word = settings.get("task")
    return TASKS.get(word) if isinstance(word, str) else None


def asked_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the fit of a release was asked for, as its settings say; refused where they do not."""
    asked = settings.get(ASKED)
    if not isinstance(asked, Mapping) or "epsilon" not in asked:
        raise InputError("This release does not record the settings of its fit. Fit it again to replay it.")
    return asked
