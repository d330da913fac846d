"""Propose-Test-Sample (Heller & Fetaya 2023, Algorithm 1): clean privately, test, then draw one posterior sample."""

from sordino.algorithm.propose_test_sample.least_records import least_records as least_records
from sordino.algorithm.propose_test_sample.mechanism import ProposedSample as ProposedSample
from sordino.algorithm.propose_test_sample.mechanism import propose_test_sample as propose_test_sample
from sordino.algorithm.propose_test_sample.sgld_variant import (
    propose_test_sgld_not_private as propose_test_sgld_not_private,
)
