"""Minimisers of regularised losses, found to a proven tolerance and released once, with noise."""

from sordino.algorithm.output_perturbation.minimiser import minimiser as minimiser
from sordino.algorithm.output_perturbation.minimiser import ridge_in_ball as ridge_in_ball
from sordino.algorithm.output_perturbation.minimiser import summed as summed
from sordino.algorithm.output_perturbation.run import run_output as run_output
