"""The ledger of a dataset: opened once, debited before any row is read, never above its budget."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sordino.core import validate
from sordino.core.bound import Bound
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.rounding import show_up
from sordino.core.spec import Spec
from sordino.ledger import book, database
from sordino.ledger.balance import Balance
from sordino.ledger.budget import DEFAULT_RESERVE, Budget
from sordino.ledger.entry import Entry
from sordino.ledger.errors import ContentWarning, LedgerError, LedgerRefusal
from sordino.ledger.filters import Filter, RenyiFilter, filter_named
from sordino.ledger.fingerprint import fingerprint, other_rows
from sordino.ledger.relations import under_relation
from sordino.ledger.verification import Verification, verify

DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Ledger:
    """A privacy budget in a file, shared by every process that releases something about the dataset.

    A debit is one transaction that ends before the caller reads a row, so a crash can lose a result and never hide a
    spend. Debits are ordered by the database; a debit that would exceed the budget changes nothing and raises
    `LedgerRefusal`.
    """

    path: Path
    timeout: float = DEFAULT_TIMEOUT

    @classmethod
    def open(
        cls,
        path: str | Path,
        dataset: str,
        relation: Relation | str,
        epsilon: float,
        delta: float,
        *,
        filter_kind: str = RenyiFilter.kind,
        reserve: float = DEFAULT_RESERVE,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> "Ledger":
        """Open a budget for a dataset; everything given here is fixed for good.

        Args:
            path: where the ledger file is made; there must be none yet.
            dataset: declared name of the dataset.
            relation: which datasets are neighbours.
            epsilon: total epsilon.
            delta: total delta.
            filter_kind: "renyi" holds every kind of release; "gaussian" holds those that a Gaussian dominates, exactly.
            reserve: share of delta kept for releases with an additive failure.
            timeout: seconds to wait for other processes.
        """
        made = cls(Path(path), _seconds(timeout))
        budget = Budget(
            dataset, Relation(validate.one_of("relation", relation, tuple(Relation))), epsilon, delta, reserve
        )
        rule = filter_named(filter_kind).opened(budget)
        if rule.largest_mu(rule.total([])) == 0:
            raise InputError(
                f"Expected a budget that affords some release, got epsilon {epsilon!r}, delta {delta!r}; raise either."
            )
        database.create(made.path, lambda connection: book.begin(connection, budget, rule), made.timeout)
        return made

    @classmethod
    def at(cls, path: str | Path, timeout: float = DEFAULT_TIMEOUT) -> "Ledger":
        """The ledger in an existing file, checked."""
        found = cls(Path(path), _seconds(timeout))
        found.balance()
        return found

    @property
    def budget(self) -> Budget:
        """What opening fixed."""
        return self._header().budget

    @property
    def rule(self) -> Filter:
        """The filter that decides."""
        return self._header().rule

    def debit(self, bound: Bound, spec: Spec) -> Entry:
        """Charge a release, before it reads a row.

        Args:
            bound: the certified bound of the release.
            spec: the run it is the bound of, from which `verify` recomputes it.

        Raises:
            LedgerRefusal: the release does not fit; nothing was recorded.
        """
        _check_matching(bound, spec)
        top = self._header()
        guarantee = under_relation(bound, top.budget.relation)
        charge, alone = top.rule.charge(guarantee), guarantee.epsilon(top.budget.delta)
        page = book.Page(charge, bound.theorem, alone, spec.to_json(), book.text(bound.to_dict()))
        with database.writing(self.path, self.timeout) as connection:
            priced, top = top, book.header(self.path, connection)
            if (top.key, top.fixed) != (priced.key, priced.fixed):
                raise LedgerError(
                    f"Expected {str(self.path)!r} to stay one ledger, got another in its place; try again."
                )
            before = book.total(self.path, connection, top)
            if not top.rule.fits(top.rule.total([before, charge])):
                raise _refusal(Balance.of(top.budget, top.rule, before, top.releases), page)
            return book.append(connection, top, page)

    def balance(self) -> Balance:
        """What is spent, and the largest release that still fits."""
        with database.reading(self.path, self.timeout) as connection:
            top = book.header(self.path, connection)
            return Balance.of(top.budget, top.rule, book.total(self.path, connection, top), top.releases)

    def entries(self) -> tuple[Entry, ...]:
        """Every debit, oldest first."""
        with database.reading(self.path, self.timeout) as connection:
            top = book.header(self.path, connection)
            book.total(self.path, connection, top)
            return tuple(book.entries(self.path, connection, top))

    def verify(self) -> Verification:
        """Recompute every entry from its spec with the theorems of this version."""
        top = self._header()
        return verify(top.budget, top.rule, self.entries())

    def export(self) -> dict[str, Any]:
        """Everything that may leave, as JSON values: no key, no fingerprints."""
        top = self._header()
        return {
            "format": database.FORMAT,
            "opened": top.fixed[2],
            "balance": self.balance().to_dict(),
            "filter": top.rule.to_dict(),
            "citation": str(top.rule.citation),
            "entries": [entry.to_dict() for entry in self.entries()],
        }

    def check_content(self, entry: Entry, columns: Mapping[str, NDArray]) -> None:
        """Fingerprint the rows of a debited release; warn when an earlier release was computed from others.

        `columns` are those that the release read, by name; another choice of columns of the same table does not warn.
        Only ever warns: the rows are not those of before, and the budget still belongs to the declared name. The
        warning is an answer about private rows without noise, so it is marked NON-PRIVATE and stays out of releases.
        """
        validate.instance_of("entry", entry, Entry)
        try:
            known = self._compare(entry, fingerprint(self._header().key, columns))
        except LedgerError as error:
            warnings.warn(f"The fingerprint of the rows was not kept: {error}", ContentWarning, stacklevel=2)
            return
        if known is not None:
            warnings.warn(
                f"NON-PRIVATE: these rows are not those of release {known} from {self.budget.dataset!r}. If the "
                "dataset grew or was cleaned that is expected, if it is another dataset it needs a ledger of its own. "
                "This was seen in private rows, and tells even whether one was removed: keep it with them.",
                ContentWarning,
                stacklevel=2,
            )

    def _compare(self, entry: Entry, found: bytes) -> int | None:
        """The first release that was computed from other rows; keeps the fingerprint either way."""
        with database.writing(self.path, self.timeout) as connection:
            known = book.fingerprints(connection)
            book.keep_fingerprint(connection, entry.sequence, found)
        others = (sequence for sequence, earlier in known if sequence != entry.sequence and other_rows(earlier, found))
        return next(others, None)

    def _header(self) -> book.Header:
        with database.reading(self.path, self.timeout) as connection:
            return book.header(self.path, connection)


def _check_matching(bound: Bound, spec: Spec) -> None:
    validate.instance_of("bound", bound, Bound)
    validate.instance_of("spec", spec, Spec)
    if (bound.relation, bound.view) != (spec.relation, spec.view):
        raise InputError(
            f"Expected the bound of this spec ({spec.relation}, {spec.view}), got one for {bound.relation}, "
            f"{bound.view}."
        )
    for certificate in bound.certificates:
        if certificate.reads_private_data:
            raise InputError(
                f"Expected certificates from public knowledge, got a {certificate.constant.name} that reads private "
                "data."
            )


def _refusal(balance: Balance, page: book.Page) -> LedgerRefusal:
    return LedgerRefusal(
        f"The budget of {balance.budget.dataset!r} does not afford a release with epsilon {show_up(page.epsilon)} at "
        f"delta {balance.budget.delta:g} and failure {show_up(page.charge.failure)}: {balance.sentence}.",
        balance,
    )


def _seconds(timeout: float) -> float:
    return validate.number("timeout", timeout, validate.Interval(0.0, 86400.0))
