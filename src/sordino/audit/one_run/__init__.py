"""Audits with one training run: many canaries, coins that decide them, and guesses or known Gaussian noise."""

from sordino.audit.one_run.audit import audit_in_one_run as audit_in_one_run
from sordino.audit.one_run.audit import bound_from_guesses as bound_from_guesses
from sordino.audit.one_run.guesses import fair_coins as fair_coins
from sordino.audit.one_run.guesses import right_guesses as right_guesses
from sordino.audit.one_run.inclusion import Canaries as Canaries
from sordino.audit.one_run.known_gaussian import KnownGaussian as KnownGaussian
from sordino.audit.one_run.known_gaussian import bound_from_scores as bound_from_scores
from sordino.audit.one_run.known_gaussian import mu_lower as mu_lower
from sordino.audit.one_run.theorem import cap as cap
from sordino.audit.one_run.theorem import epsilon_from_guesses as epsilon_from_guesses
from sordino.audit.one_run.theorem import p_value as p_value
