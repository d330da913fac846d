"""Audits by attack: models of two neighbours, a rule that tells them apart, and a bound with a joint confidence."""

from sordino.audit.attack.audit import audit_by_attack as audit_by_attack
from sordino.audit.attack.audit import bound_from_counts as bound_from_counts
from sordino.audit.attack.chains import ChainFit as ChainFit
from sordino.audit.attack.experiment import Claim as Claim
from sordino.audit.attack.fitting import FitMany as FitMany
from sordino.audit.attack.fitting import one_by_one as one_by_one
from sordino.audit.attack.fixed_score import audit_by_fixed_score as audit_by_fixed_score
from sordino.audit.attack.model_scores import CanaryLoss as CanaryLoss
from sordino.audit.attack.model_scores import record_losses as record_losses
from sordino.audit.attack.scores import Feature as Feature
from sordino.audit.attack.scores import LikelihoodRatio as LikelihoodRatio
from sordino.audit.attack.scores import LinearScore as LinearScore
from sordino.audit.attack.scores import LogisticScore as LogisticScore
from sordino.audit.attack.scores import Score as Score
