"""What can be learned, by the words of releases and of `fit`; a new file in this folder is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

from sordino.fitting.tasks.base import ASKED as ASKED
from sordino.fitting.tasks.base import AUTO as AUTO
from sordino.fitting.tasks.base import AUTO_OR_CONSTANT as AUTO_OR_CONSTANT
from sordino.fitting.tasks.base import DRAWS as DRAWS
from sordino.fitting.tasks.base import EXPECTED_ERROR as EXPECTED_ERROR
from sordino.fitting.tasks.base import FALLBACK as FALLBACK
from sordino.fitting.tasks.base import MODELS as MODELS
from sordino.fitting.tasks.base import TASKS as TASKS
from sordino.fitting.tasks.base import Begin as Begin
from sordino.fitting.tasks.base import Task as Task
from sordino.fitting.tasks.base import asked_of as asked_of
from sordino.fitting.tasks.base import ignore_progress as ignore_progress
from sordino.fitting.tasks.base import task_of as task_of

# The words of `fit` are listed in this order: models that are linear in the columns first.
for _name in dict.fromkeys(("linear", *(found.name for found in iter_modules(__path__)))):
    import_module(f"{__name__}.{_name}")
