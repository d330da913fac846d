"""Sphinx's settings: Markdown pages by MyST, the API from docstrings, nothing that is fetched from a network."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from shutil import copytree
from typing import Any, get_type_hints

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxContentsFilter
from sphinx.util.inspect import stringify_signature

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import api_pages  # noqa: E402

from sordino import __version__  # noqa: E402

project = "Sordino"
author = "The Sordino authors"
copyright = author  # noqa: A001
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
# The listing is included by the API's index.
exclude_patterns = [f"{api_pages.FOLDER}/{api_pages.LISTING}"]

myst_heading_anchors = 6
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
# HTML in a page is shown, not used.
myst_disable_syntax = ["html_block", "html_inline"]

# Backticks in a docstring are a public name where there is one, and code elsewhere.
default_role = "py:obj"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120
napoleon_numpy_docstring = False
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "Sordino"
html_static_path = ["_static"]
html_css_files = ["sordino.css"]
html_favicon = "_static/mark.svg"
pygments_dark_style = "github-dark"  # furo's own underlines imported names like links
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
_SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
_MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
_FONTS = {"font-stack": _SANS, "font-stack--monospace": _MONO, "font-stack--headings": _SANS}
_API = {"color-api-name": "var(--color-brand-content)", "color-api-pre-name": "var(--color-foreground-muted)"}
html_theme_options = {
    "light_logo": "mark.svg",
    "dark_logo": "mark.svg",
    "light_css_variables": {"color-brand-primary": "#1f4f82", "color-brand-content": "#1f4f82", **_API, **_FONTS},
    "dark_css_variables": {"color-brand-primary": "#8fbdf0", "color-brand-content": "#8fbdf0", **_API},
}

# MathJax is a script and its fonts beside the pages, and only pages with a formula load it.
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}}
_MATHJAX = ("tex-chtml.js", "output/chtml/fonts/woff-v2")

# A page may load what lies beside it and nothing else; furo sets the colour scheme in a script of the page.
_POLICY = "default-src 'self' 'unsafe-inline' data:; object-src 'none'; base-uri 'none'; form-action 'self'"

# Sphinx does not expect a heading to hold a link to a file, and cannot put such a heading into a table of contents.
SphinxContentsFilter.visit_download_reference = SphinxContentsFilter.ignore_node_but_process_children  # type: ignore[attr-defined]


def write_api_pages(app: Sphinx) -> None:
    api_pages.write(Path(app.srcdir))


def link_repository(app: Sphinx, doctree: nodes.document) -> None:
    """A page outside docs becomes a file to fetch, a folder becomes words that say where it is in the repository."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        place = (Path(doctree["source"]).parent / str(link["reftarget"])).resolve()
        page = place.with_name(f"{place.name}.md")
        if link["reftype"] == "myst" and link["refdomain"] == "doc" and not page.is_relative_to(HERE):
            name = f"/../{page.relative_to(HERE.parent)}"
            link.replace_self(addnodes.download_reference("", "", *link.children, reftarget=name))
        elif link["reftype"] == "myst" and not link["refdomain"] and place.is_dir():
            path = place.relative_to(HERE.parent)
            link.replace_self(nodes.abbreviation("", "", *link.children, explanation=f"in the repository: {path}"))


def set_policy(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    context["metatags"] = meta + context.get("metatags", "")


def keep_options_whole(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A line of a command may not end between the hyphens of an option and its name."""

    def whole(block: re.Match[str]) -> str:
        return re.sub(r"(?<![\w-])--?[a-z][\w-]*", r'<span class="whole">\g<0></span>', block[0])

    context["body"] = re.sub(r'(?s)(?<=<div class="highlight-sh ).*?</pre>', whole, context.get("body", ""))


def titles(env: Any) -> dict[str, nodes.bullet_list]:
    """Every page's table of contents with its title alone, and the pages below it."""
    if not hasattr(env, "sordino_titles"):
        env.sordino_titles = {docname: toc.deepcopy() for docname, toc in env.tocs.items()}
        for entry in (entry for toc in env.sordino_titles.values() for entry in toc if len(entry) > 1):
            entry[1:] = [nodes.bullet_list("", *below)] if (below := list(entry.findall(addnodes.toctree))) else []
    return env.sordino_titles


def navigate_by_titles(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Furo asks for titles on every page, and Sphinx copies all headings before it drops them: a third of the build."""
    toctree = context["toctree"]

    def quickly(**options: Any) -> Any:
        full = app.env.tocs
        try:
            app.env.tocs = titles(app.env) if options.get("titles_only") else full
            return toctree(**options)
        finally:
            app.env.tocs = full

    context["toctree"] = quickly


def bundle_mathematics(app: Sphinx) -> None:
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if app.builder.format != "html":
        return
    if found is None or found.origin is None:
        raise ModuleNotFoundError("sphinx-mathjax-offline is missing: pip install '.[docs]'")
    source, target = Path(found.origin).parent / "static" / "mathjax", Path(app.outdir) / "_static" / "mathjax"
    for part in _MATHJAX:
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            (target / part).write_bytes((source / part).read_bytes())


def only_ours(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Members that a class has from elsewhere are documented there, and fields of named tuples in the class itself."""
    if type(member).__name__ == "_tuplegetter":
        return True
    inner = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__objclass__", member)
    home = getattr(inner, "__module__", None) or "sordino"
    return True if home.split(".")[0] != "sordino" else None


def take_at_its_word(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with backticks: stars and bars in them are mathematics, not markup."""
    if what == "property" and lines[:1] == (tuple.__doc__ or "").splitlines()[:1]:
        lines.clear()  # a property without words of its own has those of the tuple that it replaces
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`+[^`]*`+)", line)
            parts[::2] = [re.sub(r"(?<!\\)[*|]", r"\\\g<0>", part) for part in parts[::2]]
            lines[place] = "".join(parts)


def keep_colons(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """What stands before a colon in the sentence of a property is its beginning, not a type, as napoleon has it."""
    begun = [line.removeprefix(":type: ") for line in lines if line.startswith(":type: ")]
    if what == "property" and begun:
        lines[:] = [f"{begun[0]}: {lines[0]}", *(line for line in lines[1:] if not line.startswith(":type: "))]


def shorten_types(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature is taken in at a glance: an array is an array, and what checks a field or fills it in is left out."""
    if signature and re.search(r"Annotated\[|<", signature):
        signature = _plain_signature(value)
    long = r"(\S*ndarray)\[tuple\[[^\[\]]*\], \S*dtype\[[^\[\]]*\]\]"
    first, last = (text and re.sub(long, r"\1", text) for text in (signature, returned))
    return first, last


def _plain_signature(value: Any) -> str:
    """Types without what they are annotated with, and dots for a default that cannot be written down."""
    made = inspect.signature(value)
    hints = get_type_hints(value.__init__ if inspect.isclass(value) else value)
    plain = [
        parameter.replace(
            annotation=hints.get(parameter.name, parameter.annotation),
            default=_shown(parameter.default),
        )
        for place, parameter in enumerate(made.parameters.values())
        if place or parameter.name not in {"self", "cls"}
    ]
    shown = made.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return stringify_signature(shown, unqualified_typehints=True)


def _shown(default: Any) -> Any:
    return default if default is inspect.Parameter.empty or "<" not in repr(default) else _Dots()


class _Dots:
    def __repr__(self) -> str:
        return "..."


def link_class(app: Sphinx, env: Any, node: addnodes.pending_xref, words: nodes.Node) -> nodes.Node | None:
    """A class named without its package, as in prose, or by its module, as in a type: where one name alone is meant."""
    if node["refdomain"] != "py":
        return None
    called = node["reftarget"].split(".")[-1]
    meant = {
        name.value: name
        for name in (*api_pages.beside(), *api_pages.face())
        if name.name == called and inspect.isclass(name.value)
    }
    if len(meant) != 1:
        return None
    (name,) = meant.values()
    return env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name.path, node, words)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_api_pages)
    app.connect("doctree-read", link_repository, priority=400)  # before files to fetch are collected
    app.connect("html-page-context", set_policy)
    app.connect("html-page-context", keep_options_whole)
    app.connect("html-page-context", navigate_by_titles, priority=400)  # before furo asks
    app.connect("builder-inited", bundle_mathematics)
    app.connect("autodoc-skip-member", only_ours)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("missing-reference", link_class)
    app.connect("autodoc-process-docstring", take_at_its_word, priority=400)  # before napoleon writes markup
    app.connect("autodoc-process-docstring", keep_colons, priority=600)  # after it
