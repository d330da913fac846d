"""Gaussian noise without rounding errors: what is released is the certified mechanism, rounded to a public grid."""

from sordino.algorithm.exact_noise.gaussians import ExactGaussians as ExactGaussians
from sordino.algorithm.exact_noise.noised import COVERED as COVERED
from sordino.algorithm.exact_noise.noised import noised_numbers as noised_numbers
from sordino.algorithm.exact_noise.noised import noised_sums as noised_sums
