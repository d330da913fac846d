"""Linear regression from noised sums: one Gaussian mechanism, and a posterior that knows its noise."""

from sordino.algorithm.sufficient_statistics.run import StatisticsOptions as StatisticsOptions
from sordino.algorithm.sufficient_statistics.run import StatisticsRelease as StatisticsRelease
from sordino.algorithm.sufficient_statistics.run import run_statistics as run_statistics
from sordino.algorithm.sufficient_statistics.run import statistics_spec as statistics_spec
