"""Statistics that never claim more than was seen: exact limits, stated jointly, rounded outwards."""

from sordino.audit.confidence.attack_bound import cap as cap
from sordino.audit.confidence.attack_bound import epsilon_from_rates as epsilon_from_rates
from sordino.audit.confidence.attack_bound import epsilon_lower as epsilon_lower
from sordino.audit.confidence.attack_bound import trade_off_point as trade_off_point
from sordino.audit.confidence.band import band_cap as band_cap
from sordino.audit.confidence.band import band_epsilon as band_epsilon
from sordino.audit.confidence.band import band_tests as band_tests
from sordino.audit.confidence.band import simultaneous_ends as simultaneous_ends
from sordino.audit.confidence.clopper_pearson import lower_end as lower_end
from sordino.audit.confidence.clopper_pearson import upper_end as upper_end
from sordino.audit.confidence.error_counts import ErrorCounts as ErrorCounts
from sordino.audit.confidence.gaussian_claim import GaussianPair as GaussianPair
from sordino.audit.confidence.gaussian_claim import epsilon_of_gaussian_pair as epsilon_of_gaussian_pair
from sordino.audit.confidence.gaussian_claim import mu_refuted as mu_refuted
from sordino.audit.confidence.thresholds import choose_threshold as choose_threshold
from sordino.audit.confidence.thresholds import count_errors as count_errors
from sordino.audit.confidence.thresholds import error_curve as error_curve
