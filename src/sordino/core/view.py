"""What the adversary sees of a run. As decisive as convexity, so there is no default anywhere."""

from enum import StrEnum


class View(StrEnum):
    """What leaves the run."""

    LAST_ITERATE = "last-iterate"
    ALL_ITERATES = "all-iterates"
    AVERAGE = "average"
    POSTERIOR_PARAMETERS = "posterior-parameters"
    ONE_SAMPLE = "one-sample"
