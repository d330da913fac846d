"""Release folders: the spec that ran, its certificate, and arrays; no file in them holds code."""

from sordino.ledger.release.coverage import release_coverage as release_coverage
from sordino.ledger.release.document import StoredRelease as StoredRelease
from sordino.ledger.release.document import posterior_of as posterior_of
from sordino.ledger.release.folder import read_release as read_release
from sordino.ledger.release.folder import write_release as write_release
