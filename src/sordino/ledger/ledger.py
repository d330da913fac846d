"""The ledger of a dataset: opened once, debited before any row is read, never above its budget."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sordino.accounting.evaluate import evaluate, explain
from sordino.accounting.registry import theorems
from sordino.core import validate
from sordino.core.bound import Bound
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.rounding import show_up
from sordino.core.spec import Spec
from sordino.ledger import access, book, log
from sordino.ledger.balance import Balance
from sordino.ledger.budget import DEFAULT_RESERVE, Budget
from sordino.ledger.entry import Entry
from sordino.ledger.errors import ContentWarning, LedgerError, LedgerRefusal
from sordino.ledger.filters import Charge, EitherFilter, Filter, filter_named
from sordino.ledger.filters.base import epsilon_alone
from sordino.ledger.fingerprint import fingerprint, other_rows
from sordino.ledger.relations import under_relation
from sordino.ledger.verification import Verification, verify

DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Ledger:
    """A privacy budget in a file, shared by every process that releases something about the dataset.

    A debit is on the disk before the caller reads a row, so a crash can lose a result and never hide a spend. Debits
    are made one after the other, under a lock on the file; one that would exceed the budget changes nothing and raises
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
        filter_kind: str = EitherFilter.kind,
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
            filter_kind: "either" holds every kind of release, Gaussian ones at the least cost, and lets a single one
                have the whole budget; "gaussian" holds those that a Gaussian dominates, exactly; "renyi" counts by
                Rényi curves from the beginning.
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
        log.create(made.path, book.opening(budget, rule))
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

    def debit(self, bound: Bound | Sequence[Bound], spec: Spec) -> Entry:
        """Charge a release, before it reads a row.

        Args:
            bound: the certified bound of the release, or all that are known: the one that leaves most of the budget is
                debited. One that does not fit, or whose cost is mostly in what may fail, is compared with what the
                other theorems say of the spec.
            spec: the run it is the bound of, from which `verify` recomputes it.

        Raises:
            LedgerRefusal: the release does not fit; nothing was recorded.
        """
        bounds = list(bound) if isinstance(bound, Sequence) else [bound]
        if not bounds:
            raise InputError("Expected at least one bound of the release, got none.")
        for one in bounds:
            _check_matching(one, spec)
        top, state = self._standing()
        pages = _priced(top, bounds, spec)
        if len(pages) == 1 and _should_be_compared(top.rule, state.total, pages[0].charge):
            pages += _priced(top, _other_bounds(bounds[0], spec, top.budget.delta), spec, must=False)
        with log.writing(self.path, self.timeout) as held:
            priced, (top, state) = top, book.standing(held)
            if (top.key, top.fixed) != (priced.key, priced.fixed):
                raise access.another_in_its_place(self.path)
            page = _best(top.rule, state.total, pages)
            if page is None:
                raise _refusal(Balance.of(top.budget, top.rule, state.total, state.releases), pages[0])
            return book.append(held, top, state, page)

    def balance(self) -> Balance:
        """What is spent, and the largest release that still fits."""
        top, state = self._standing()
        return Balance.of(top.budget, top.rule, state.total, state.releases)

    def entries(self) -> tuple[Entry, ...]:
        """Every debit, oldest first; the whole file is checked."""
        with log.reading(self.path) as found:
            return tuple(book.entries(found))

    def verify(self) -> Verification:
        """Add up the whole file again and recompute every entry from its spec with the theorems of this version."""
        top, _ = self._standing()
        return verify(top.budget, top.rule, self.entries())

    def export(self) -> dict[str, Any]:
        """Everything that may leave, as JSON values: no key, no fingerprints."""
        with log.reading(self.path) as found:
            top, state = book.standing(found)
            listed = tuple(book.entries(found))
        return {
            "format": log.FORMAT,
            "opened": top.fixed[2],
            "balance": Balance.of(top.budget, top.rule, state.total, state.releases).to_dict(),
            "filter": top.rule.to_dict(),
            "citation": str(top.rule.citation),
            "entries": [entry.to_dict() for entry in listed],
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
        with log.writing(self.path, self.timeout) as held:
            known = book.fingerprints(held)
            book.keep_fingerprint(held, book.header(self.path, held.opening), entry.sequence, found)
        others = (sequence for sequence, earlier in known if sequence != entry.sequence and other_rows(earlier, found))
        return next(others, None)

    def _header(self) -> book.Header:
        return self._standing()[0]

    def _standing(self) -> tuple[book.Header, book.State]:
        with log.reading(self.path) as found:
            return book.standing(found)


def _priced(top: book.Header, bounds: Sequence[Bound], spec: Spec, must: bool = True) -> list[book.Page]:
    """What each bound would cost; bounds that the filter cannot hold are left out as long as one can."""
    pages, refused = [], []
    for bound in bounds:
        try:
            guarantee = under_relation(bound, top.budget.relation)
            charge = top.rule.charge(guarantee)
        except InputError as error:
            refused.append(error)
            continue
        alone = epsilon_alone(guarantee, top.budget.delta)
        pages.append(book.Page(charge, bound.theorem, alone, spec.to_json(), book.text(bound.to_dict())))
    if must and not pages:
        raise refused[0]
    return pages


def _best(rule: Filter, before: Charge, pages: Sequence[book.Page]) -> book.Page | None:
    """Of those that fit, the page that leaves most of the budget; the first of several equal ones."""
    after = [(rule.total([before, page.charge]), page) for page in pages]
    fitting = [(total, page) for total, page in after if rule.fits(total)]
    if len(fitting) > 1:
        return min(fitting, key=lambda pair: rule.used(pair[0]))[1]
    return fitting[0][1] if fitting else None


def _should_be_compared(rule: Filter, before: Charge, charge: Charge) -> bool:
    """Whether another theorem may serve better: the charge does not fit, or costs more in failures than in loss."""
    after = rule.total([before, charge])
    if not rule.fits(after):
        return True
    without_failure = rule.total([before, replace(charge, failure=0.0)])
    return charge.failure > 0 and rule.used(after) > rule.used(without_failure)


def _other_bounds(bound: Bound, spec: Spec, delta: float) -> list[Bound]:
    """What every other theorem says of the run, where the bound itself is what its theorem says of it."""
    known = [theorem for theorem in theorems() if theorem.id == bound.theorem]
    if not known or evaluate(known[0], spec) != bound:
        return []
    return [found for found, _ in explain(spec, delta).bounds if found.theorem != bound.theorem]


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
