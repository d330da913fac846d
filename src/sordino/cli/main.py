"""Entry point: subcommands, and the exit codes that `shared.EXIT_CODES` lists."""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from sordino.cli import explore, ledger, schema, sign
from sordino.cli.audit import audit, calibrate, certify
from sordino.cli.demo import demo, reproduce
from sordino.cli.fit import fit, plan
from sordino.cli.predict import predict
from sordino.cli.shared import epilog, register
from sordino.cli.show import report, show
from sordino.cli.start import start
from sordino.core import __version__
from sordino.core.validate import SordinoError, printable

NAME = "sordino"

HELP = "Private Bayesian learning that certifies and audits itself."
_FIT = "sordino fit logistic patients.csv --schema schema.json --epsilon 1 --delta 1e-6 --relation add-remove --out fit"
_FIRST = epilog("sordino demo", "sordino schema new patients.csv --ask --out schema.json", _FIT, "sordino report fit")
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}

app = typer.Typer(name=NAME, help=HELP, invoke_without_command=True, epilog=_FIRST, **_PLAIN)
register(app, start, explore.look, plan, fit, show, predict, certify, calibrate, audit, report, demo, reproduce)
for _name, _group in (("schema", schema.app), ("ledger", ledger.app), ("explore", explore.app), ("sign", sign.app)):
    app.add_typer(_group, name=_name)


_Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)]


@app.callback()
def _root(context: typer.Context, version: _Version = False) -> None:
    """Private Bayesian learning that certifies and audits itself."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; what is refused is one line on stderr and the exit code of the contract."""
    command = typer.main.get_command(app)
    given = list(arguments) if arguments is not None else None
    try:
        outcome = command.main(args=given, prog_name=NAME, standalone_mode=False)
    except SordinoError as error:
        return _refuse(str(error), error.exit_code)
    except typer.TyperException as error:
        return _refuse(error.format_message())
    except (typer.Abort, KeyboardInterrupt):
        return _refuse("Interrupted.", code=130)
    except BrokenPipeError:
        return 0
    except MemoryError:
        return _refuse("The input does not fit into the memory of this machine.", code=1)
    return outcome if isinstance(outcome, int) else 0


def program() -> NoReturn:
    """`main` as a process of its own, which ends with its exit code whatever the threads of libraries are at.

    XLA cannot stop the threads of compiled programs, and exit handlers of its C++ library free the code that these
    execute. So where work was cut short after JAX was loaded, the process ends without these handlers.
    """
    code = main()
    if code != 0 and "jax" in sys.modules:
        sys.modules["logging"].shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # a reader that is gone, a stream that is closed
                stream.flush()
        os._exit(code)
    gc.freeze()  # all that is left goes with the process: the interpreter need not look for cycles in it
    sys.exit(code)


def _refuse(message: str, code: int = 2) -> int:
    sys.stderr.write("sordino: " + printable(" ".join(message.split())) + "\n")
    return code
