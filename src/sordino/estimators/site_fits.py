"""A fit of several organisations: what they agree on, what the coordinator does, and what a site does.

All of them make the same plan from the same agreement. Every site compares the schema with its own, debits its own
ledger the whole price before it reads a row, and adds up its rows by an engine of its own.
"""

import json
import math
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sordino.accounting.evaluate import Explanation, explain
from sordino.algorithm.engines.site_folder import FolderSite, Published, Served, waited
from sordino.algorithm.engines.sites import Coordinator, JointCoordinator, JointShare, Site
from sordino.algorithm.noise.sums import with_total_variation
from sordino.core.bound import FLOATING_POINT, Certificate, Evidence, Relation, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, Interval, number, one_of, whole_number
from sordino.core.whole_files import write_file
from sordino.data import Schema, schema_from_text, schema_to_text
from sordino.estimators.charged import after_debit, as_ledger, known_bounds
from sordino.estimators.declaration import Declaration, declared_columns
from sordino.estimators.fitting import GivenRows, choose, fit, situation_of, sources_of
from sordino.estimators.in_parts import METHOD, EncodedThere, Guarded, table_in_parts
from sordino.estimators.methods import Outcome, Plan
from sordino.estimators.methods.bounded_influence import BoundedInfluence
from sordino.estimators.situation import OVERDISPERSED, SETTINGS, TASKS, Situation, Sources
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA

CENTRAL, JOINT = NOISES = ("central", "joint")
AGREEMENT = "agreement.json"
PATIENCE = 600.0
# What joint noise may cost, as a share of the agreed delta, which the plan does without; it costs far less.
_SHARE_OF_DELTA = 1e-3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Prepared(NamedTuple):
    """What follows from an agreement, the same for everybody."""

    situation: Situation
    declaration: Declaration
    plan: Plan
    explanation: Explanation


@dataclass(frozen=True)
class Agreement:
    """What sites and coordinator agree on, all of it public."""

    run: str
    model: str
    schema: Schema
    epsilon: float
    delta: float
    relation: str
    sites: tuple[str, ...]
    noise: str
    settings: dict[str, Any]

    def to_text(self) -> str:
        """The text of the file."""
        told = {**vars(self), "schema": schema_to_text(self.schema), "sites": list(self.sites)}
        return json.dumps(told, indent=2, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> "Agreement":
        """What `to_text` wrote; anything else is refused."""
        try:
            found = json.loads(text)
            schema = schema_from_text(found.pop("schema"))
            return cls(schema=schema, sites=tuple(found.pop("sites")), **found).checked()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError("Expected an agreement of sites, got another file; look at the folder.") from None

    def checked(self) -> "Agreement":
        """Itself, if it can be fitted."""
        one_of("model", self.model, TASKS)
        one_of("noise", self.noise, NOISES)
        whole_number("the number of sites", len(self.sites), Interval(2, 1000))
        if len(set(self.sites)) < len(self.sites) or not all(_NAME.fullmatch(name) for name in self.sites):
            raise InputError(
                "Expected different names of sites, of letters, digits, dots, dashes and underscores, got others."
            )
        return self

    @property
    def public_units(self) -> bool:
        """Whether the number of records is public."""
        return self.relation == Relation.REPLACE_ONE.value

    def prepared(self) -> Prepared:
        """The plan and what theorems say of it."""
        task, related = TASKS[self.model], Relation(one_of("relation", self.relation, tuple(Relation)))
        declaration = declared_columns(self.schema, task)
        more = {"overdispersed": True} if self.model == OVERDISPERSED else {}
        chosen = SETTINGS[task](**self.settings | more) if task in SETTINGS else {}
        delta = number("delta", self.delta) * (1.0 if self.noise == CENTRAL else 1.0 - _SHARE_OF_DELTA)
        situation = situation_of(task, declaration, self.epsilon, delta, related, chosen)
        plan = choose(situation, METHOD)
        return Prepared(situation, declaration, plan, explain(plan.spec, situation.delta))


def agreed(model: str, schema: Schema, sites: tuple[str, ...], noise: str, **asked: Any) -> Agreement:
    """A new agreement; `asked` has epsilon, delta, relation and the settings of the model."""
    three = (number("epsilon", asked.pop("epsilon")), number("delta", asked.pop("delta")), str(asked.pop("relation")))
    return Agreement(secrets.token_hex(16), model, schema, *three, sites, noise, asked).checked()


@dataclass(eq=False)
class AtSites:
    """The rows of a fit that lie at sites: `fit` learns from them as from parts of a table."""

    agreement: Agreement
    folder: Path
    patience: float
    keep: None = None
    distance: float = 0.0

    def learned(
        self, plan: Plan, declaration: Declaration, sources: Sources, guarded: Guarded, kept: Any = None
    ) -> Outcome:
        """Ask the sites for every sum of the plan."""
        del declaration, kept
        published, method = Published(), plan.method
        assert isinstance(method, BoundedInfluence)
        sites = [FolderSite(self.folder, name, published, self.patience) for name in self.agreement.sites]
        coordinator, well = Coordinator(sites), False
        total: Any = coordinator
        if self.agreement.noise == JOINT:
            total = JointCoordinator(coordinator, public_units=self.agreement.public_units)
        try:
            found = guarded(lambda: method.run_sums(plan, total, sources, None, published))
            self.distance = total.distance if isinstance(total, JointCoordinator) else 0.0
            well = True
            return found
        finally:
            for site in sites:
                site.end(well=well)

    def settings(self, schema: Schema) -> dict[str, Any]:
        """What a release says of where its sums were added up."""
        del schema
        return {"sites": list(self.agreement.sites), "noise": self.agreement.noise}


def coordinate(
    agreement: Agreement, folder: Path, *, patience: float = PATIENCE, seed: int | None = None
) -> StoredRelease:
    """Publish the agreement, ask the sites, and make the release; no ledger is debited here: every site's own pays."""
    prepared = agreement.prepared()
    if seed is not None and agreement.noise == JOINT:
        raise InputError("Expected no --seed with joint noise, which sites draw, got one; leave it out.")
    if not folder.is_dir() or any(folder.iterdir()):
        raise InputError(f"Expected an empty folder that all sites can reach, got {str(folder)!r}; make one.")
    write_file(folder / AGREEMENT, agreement.to_text().encode())
    rows = AtSites(agreement, folder, patience)
    given = GivenRows(prepared.declaration, _nothing, BY_SCHEMA, rows)
    release = fit(prepared.situation, given, METHOD, None, sources_of(seed)).release
    if agreement.noise == CENTRAL:
        return release
    added = with_total_variation(release.epsilon, 0.0, rows.distance)
    reason = (
        f"noise that {len(agreement.sites)} sites drew from fair bits without rounding and added to exact sums, each a "
        "whole number: together within this total variation distance of a rounded Gaussian, which adds at most "
        f"{show_up(added)} to delta and keeps it within the agreed {agreement.delta:g}"
    )
    line = Certificate(FLOATING_POINT, rows.distance, Evidence.PROVED, reason)
    return replace(release, bound=with_floating_point(release.bound, line))


def _nothing(_: Declaration) -> Any:
    raise InputError("Expected rows at sites, got a question to the coordinator, who has none.")


def join(
    folder: Path,
    name: str,
    data: Any,
    schema: Schema,
    *,
    ledger: Any = None,
    engine: Any = "streamed",
    secret: bytes | None = None,
    patience: float = PATIENCE,
    told: Callable[[str], None] = lambda _: None,
) -> tuple[Agreement, int | None, bool]:
    """Take part with the rows of one site: the agreement, the entry of the ledger, and whether a release was made."""
    try:
        agreement = Agreement.from_text(waited(folder / AGREEMENT, patience))
    except TimeoutError:
        raise InputError(f"Expected an agreement in {str(folder)!r}, got none for {patience:g} seconds.") from None
    if name not in agreement.sites:
        raise InputError(f"Expected a site of the agreement ({', '.join(agreement.sites)}), got {name!r}.")
    if schema_to_text(agreement.schema) != schema_to_text(schema):
        raise InputError("Expected the schema of the agreement, got another; all sites declare the same.")
    situation, declaration, plan, explanation = agreement.prepared()
    if explanation.tightest is None or explanation.epsilon > situation.epsilon:
        raise InputError(f"Expected a plan within epsilon {situation.epsilon:g}, got another; nothing was debited.")
    schema = situation.schema if plan.schema is None else plan.schema
    given, book, sources = table_in_parts(schema, data, engine), as_ledger(ledger), sources_of(None)
    sources.ready()
    try:
        entry = None if book is None else book.debit(known_bounds(explanation), plan.spec)
        encode = EncodedThere(replace(declaration, schema=schema), plan)
        total = after_debit(lambda: given.totals(schema, encode), entry)
        joint = None
        if agreement.noise == JOINT:
            joint = JointShare(agreement.sites, sources.fresh, agreement.public_units, _affordable(situation))
        site = Site(name, lambda asked: after_debit(partial(total, asked), entry), joint, secret)
        well = Served(site, plan.details["made"], told).until_the_end(folder, patience)
    finally:
        given.engine.close()
    return agreement, None if entry is None else entry.sequence, well


def _affordable(situation: Situation) -> Callable[[float], None]:
    """Adds up what joint noise costs, and refuses what would be more than the plan left of the agreed delta."""
    spent = 0.0

    def afford(distance: float) -> None:
        nonlocal spent
        spent += distance
        if (1.0 + math.exp(situation.epsilon)) * spent > _SHARE_OF_DELTA * situation.delta:
            raise InputError(
                "Expected joint noise within a thousandth of delta of a Gaussian, got more; choose a larger delta, or "
                "central noise."
            )

    return afford
