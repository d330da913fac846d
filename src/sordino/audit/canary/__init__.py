"""Records made to be noticed: adversarial, mislabelled, extreme."""

from sordino.audit.canary.class_scores import class_scores as class_scores
from sordino.audit.canary.class_scores import class_targets as class_targets
from sordino.audit.canary.deepfool import deepfool as deepfool
from sordino.audit.canary.deepfool import ensemble_decision as ensemble_decision
from sordino.audit.canary.gradients import gradients_as_run as gradients_as_run
from sordino.audit.canary.gradients import longest_gradient as longest_gradient
from sordino.audit.canary.gradients import most_distant_gradients as most_distant_gradients
from sordino.audit.canary.records import inside_domain as inside_domain
from sordino.audit.canary.records import mislabelled as mislabelled
from sordino.audit.canary.records import out_of_range as out_of_range
