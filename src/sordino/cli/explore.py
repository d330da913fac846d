"""`sordino explore check|compare|choose`: private questions about fits."""

import typer

from sordino.cli import check, choose, compare
from sordino.cli.shared import epilog

app = typer.Typer(help="Check a fit, compare fits, or choose among models, privately.", rich_markup_mode=None)
for _name, _module in (("check", check), ("compare", compare), ("choose", choose)):
    app.command(_name, short_help=_module.SHORT, epilog=epilog(*_module.EXAMPLES))(_module.command)
