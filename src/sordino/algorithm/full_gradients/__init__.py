"""Losses of linear scores by noised sums of clipped gradients over all records, every round released."""

from sordino.algorithm.full_gradients.natural import NaturalRelease as NaturalRelease
from sordino.algorithm.full_gradients.natural import NaturalRule as NaturalRule
from sordino.algorithm.full_gradients.natural import run_natural_gradients as run_natural_gradients
from sordino.algorithm.full_gradients.noise_left import NoiseLeft as NoiseLeft
from sordino.algorithm.full_gradients.noise_left import noise_left as noise_left
from sordino.algorithm.full_gradients.residuals import residuals as residuals
from sordino.algorithm.full_gradients.run import GradientsRelease as GradientsRelease
from sordino.algorithm.full_gradients.run import MovingRule as MovingRule
from sordino.algorithm.full_gradients.run import descend as descend
from sordino.algorithm.full_gradients.run import noised_gradients as noised_gradients
from sordino.algorithm.full_gradients.run import run_full_gradients as run_full_gradients
from sordino.algorithm.full_gradients.skip_network import SkipNetwork as SkipNetwork
from sordino.algorithm.full_gradients.skip_network import hidden_units as hidden_units
