"""The frame of every page: one style sheet, a policy that lets nothing in, and templates that escape everything."""

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sordino.core.version import __version__

NON_PRIVATE = "NON-PRIVATE"


@cache
def environment() -> Environment:
    """Templates of this package; what is missing is an error, what is text is escaped."""
    made = Environment(
        loader=PackageLoader("sordino.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"version": __version__}
    return made


@cache
def style_sheet() -> str:
    """The one style sheet, put into every page."""
    return resources.files("sordino.report").joinpath("templates", "page.css").read_text(encoding="utf-8")


@cache
def content_policy() -> str:
    """Nothing is fetched and nothing runs; only the style sheet with this digest applies."""
    digest = base64.b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render(template: str, **values: Any) -> str:
    """A page: a template that extends the frame, with the style sheet and the policy filled in."""
    return environment().get_template(template).render(style=Markup(style_sheet()), policy=content_policy(), **values)
