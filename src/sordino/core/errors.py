"""The two ways Sordino says no."""


class SordinoError(Exception):
    """Base class of every error Sordino raises on purpose."""


class InputError(SordinoError, ValueError):
    """Something given from outside is malformed.

    The message is one sentence: what was given, what is allowed, what to do. The command line prints it and exits
    with code 2. A run to which a theorem merely does not apply is *not* an error: see `Inapplicable`.
    """
