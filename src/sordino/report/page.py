"""From release folders to one self-contained HTML page, and a watermarked one for what must not be published."""

import base64
import hashlib
import math
import platform
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sordino.accounting.convert import compose
from sordino.accounting.evaluate import caller_checks, theorems
from sordino.core import __version__
from sordino.core.atomic_write import write_file
from sordino.core.gaussian import show_down, show_up
from sordino.core.results import Result
from sordino.core.spec import NoisedSums, NoisyGradient, PosteriorSample, Spec, column_of
from sordino.core.validate import InputError
from sordino.fitting.tasks.base import Begin, ignore_progress, task_of
from sordino.inference.release import answering, parameters_of
from sordino.inference.summary import Summary, coefficients_if_known
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA, protection_of
from sordino.report import charts, figures
from sordino.report import decision as plain_words
from sordino.report.charts import label
from sordino.report.decision import coverage, decide, declared_rows, not_applying, why_budgets_do_not_add
from sordino.report.figures import step_bounds
from sordino.report.subject import Subject

NON_PRIVATE = "NON-PRIVATE"


@cache
def environment() -> Environment:
    """Templates of this package; what is missing is an error, what is text is escaped."""
    loader = PackageLoader("sordino.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    style = resources.files("sordino.report").joinpath("templates", "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Nothing is fetched and nothing runs; only the style sheet with this digest applies.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    made.globals |= {"version": __version__, "style": Markup(style), "policy": policy}
    return made


_AS_ARRAYS = "Rows came as arrays. Only the caller knows whether private rows shaped them, by a scale or an encoding."


def report_page(subjects: Sequence[Subject], begin: Begin = ignore_progress, *, non_private: bool = False) -> str:
    """The page of releases that may be published, or the watermarked one of what must not, with the reasons."""
    articles, cited = [], dict[str, str]()
    for number, subject in enumerate(subjects, 1):
        begin(subject.name)
        articles.append(_article(f"r{number}", subject, non_private=non_private))
        for bound in (subject.release.bound, *(bound for bound, _ in subject.explanation.bounds)):
            cited.setdefault(bound.citation.key, bound.citation.reference)
    software = [("Python", platform.python_version())]
    for name in ("numpy", "scipy", "jax"):
        with suppress(PackageNotFoundError):
            software.append((name, version(name)))
    words = {"words": plain_words, "forest_words": (figures.FOREST, figures.STEPS), "by_schema": BY_SCHEMA}
    words |= {"statements": {theorem.id: theorem.statement for theorem in theorems()}, "quoted": shlex.quote}
    shown = {"show_up": show_up, "show_down": show_down, "finite": math.isfinite, "label": label}
    drawn = {"most_intervals": figures.MOST_INTERVALS, "shares_bar": figures.shares_bar}
    made = {"articles": articles, "non_private": non_private, "together": _together(subjects)}
    made |= {"references": sorted(cited.items()), "software": software}
    return environment().get_template("report.html").render(**made, **words, **shown, **drawn)


def _article(ident: str, subject: Subject, *, non_private: bool) -> dict[str, Any]:
    release, bound = subject.release, subject.bound
    shown = subject.audit if non_private or subject.audit_may_leave else None
    stays = "An audit of this release read private rows. It is for the auditor, on the separate NON-PRIVATE page."
    result = _result(release)
    task = task_of(release.settings)
    coefficients = result if isinstance(result, Summary) and task is not None and task.linear else None
    target = "" if release.schema is None or release.schema.target is None else release.schema.target.name
    curves = step_bounds(release.spec, release.delta)
    return dict(
        ident=ident,
        subject=subject,
        decision=decide(subject),
        declared=() if release.schema is None else declared_rows(release.schema),
        coverage=coverage(release),
        not_applying=not_applying(subject),
        why_budget=why_budgets_do_not_add(subject),
        audit=shown,
        withheld="" if shown is subject.audit else stays,
        # By the bound that the page states, which this version certifies.
        protected=protection_of(release.spec, release.schema, bound, release.delta),
        odds=None
        if bound is None or math.isinf(subject.epsilon)
        else plain_words.worked_odds(bound.guarantee, subject.epsilon, release.delta),
        bar=figures.bar_figure(f"{ident}-bar", subject.epsilon, shown),
        steps=curves if isinstance(curves, str) else charts.draw(figures.steps_chart(f"{ident}-steps", curves)),
        trade_off=charts.draw(figures.trade_off(f"{ident}-trade", bound, shown)),
        result=result.shown,
        drawn=[
            figures.estimates_figure(f"{ident}-estimates-{place}", points, header[0] or "value of the parameter")
            for place, ((header, _), points) in enumerate(zip(result.shown.tables, result.shown.points, strict=False))
        ],
        coefficients=coefficients,
        forest=None if coefficients is None else figures.forest_plot(f"{ident}-forest", coefficients, target),
        # What the winning theorem, or those of a composite's parts, leave for people to check; and what the caller did.
        by_caller=(
            *(() if bound is None else caller_checks(bound.theorem, release.spec)),
            *(() if release.preprocessing == BY_SCHEMA else (_AS_ARRAYS,)),
        ),
        draws=_draws(release.spec),
        # What an audit trains on is not part of what is certified, and its paths stay private.
        description=replace(release.spec, instance=None).to_json(),
    )


def _result(release: StoredRelease) -> Result:
    """What the release says; of a model without coefficients, or whose table is not known, its parameters."""
    known = release.schema is not None and release.model is not None
    if task_of(release.settings) is None or known or coefficients_if_known(release) is not None:
        found = answering(release).summary()
        if found.shown.tables:
            return found
    return parameters_of(release)


def _draws(spec: Spec) -> str:
    algorithm = spec.algorithm
    if isinstance(algorithm, NoisyGradient):
        kept = len(algorithm.kept_iterates(spec.view))
        chains = f"{algorithm.chains} independent chain{'' if algorithm.chains == 1 else 's'}"
        return f"{chains}, {kept} iterate{'' if kept == 1 else 's'} of each; the certificate covers all of them."
    if isinstance(algorithm, PosteriorSample):
        return f"{algorithm.draws} posterior draw{'' if algorithm.draws == 1 else 's'}; the certificate covers all."
    if not isinstance(algorithm, NoisedSums):
        return "The certificate covers everything in this folder, seen together."
    if algorithm.query.startswith("a look"):
        return "Noised counts and sums. Computing anything from them costs no budget."
    return "The parameters of a posterior. Drawing from it costs no budget, however often."


def _together(subjects: Sequence[Subject]) -> dict[str, Any] | None:
    """All releases of the page composed, where one relation and one unit make that possible."""
    bounds = [subject.bound for subject in subjects]
    relations = {bound.relation for bound in bounds if bound is not None}
    units = {column_of(subject.release.spec.unit) for subject in subjects}
    if len(subjects) < 2 or None in bounds or len(relations) != 1 or len(units) != 1:
        return None
    delta = max(subject.release.delta for subject in subjects)
    whole = compose([(bound.guarantee, 1) for bound in bounds if bound is not None])
    return {"epsilon": whole.epsilon(delta), "delta": delta, "relation": relations.pop()}


LARGEST_PAGE = 5_000_000


class ReportPages(NamedTuple):
    """Where the pages are; either may be absent."""

    private: Path | None
    non_private: Path | None


def non_private_path(path: Path) -> Path:
    """Beside the page, with the warning in its name."""
    return path.with_name(f"{path.stem}.{NON_PRIVATE}{path.suffix}")


def write_report(subjects: Sequence[Subject], path: Path, begin: Begin = ignore_progress) -> ReportPages:
    """Write the page that may be published at `path`, and beside it, where there is need, the watermarked one.

    `begin` is called with the name of each release as work on it begins, on either page.

    Formal guarantees: the page at `path` holds post-processing of releases with secret randomness, public declarations
    and audits that read no private row, and nothing else.
    """
    if not subjects:
        raise InputError("Name at least one release folder.")
    leaving = [subject for subject in subjects if subject.may_leave]
    staying = [subject for subject in subjects if not (subject.may_leave and subject.audit_may_leave)]
    pages = {path: report_page(leaving, begin)} if leaving else {}  # both are rendered before either is written
    pages |= {non_private_path(path): report_page(staying, begin, non_private=True)} if staying else {}
    for place, page in pages.items():
        if (size := len(page.encode())) > LARGEST_PAGE:
            raise InputError(f"Expected a page of at most {LARGEST_PAGE} bytes, got {size}; give fewer releases.")
        write_file(place, page.encode())
    return ReportPages(path if leaving else None, non_private_path(path) if staying else None)
