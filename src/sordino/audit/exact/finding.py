"""One pair of neighbours that an exact audit looked at."""

from dataclasses import dataclass

from sordino.audit.exact.leak import Leak


@dataclass(frozen=True, eq=False)
class Finding:
    """How far two neighbours can be told apart, and which they are, in words."""

    leak: Leak
    neighbours: str
