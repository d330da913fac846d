"""The command line: one file per subcommand."""

from sordino.cli.main import main as main
from sordino.cli.main import program as program
