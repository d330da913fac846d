"""`sordino start DATA`: asks for declaration, budget, plan, fit, report and dossier, one after the other.

Every answer is written beside the table before the next question, and every step is a command, shown as it runs.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from sordino.cli import library
from sordino.cli.fit import REGRESSIONS
from sordino.cli.schema import asked_lines, dialect, until
from sordino.cli.shared import AsJson, command, json_text, write_text
from sordino.core.bound import Relation
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, number, one_of, printable
from sordino.fitting.tasks.base import MODELS


@command("start", "From a table to a report and a dossier, step by step.", "sordino start patients.csv")
def start(
    data: Annotated[Path | None, Argument(metavar="[DATA]", help="Table file. Default: Sordino asks for it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Walk through declare, budget, plan, fit, report and a signed dossier, asking for one thing at a time.

    Answers are kept in files beside the table: DATA.lines.txt, DATA.schema.json, DATA.start.json and DATA.ledger. After
    Ctrl-C, `sordino start DATA` continues with them. Nothing is spent before you say yes to the fit.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("`sordino start` needs a terminal. In a script use `schema new`, `ledger open` and `fit`.")
    table = data if data is not None else Path(typer.prompt("Which table (CSV, Parquet or Arrow file)?"))

    library.existing_file(table)
    walk = Walk(table)
    typer.echo("Ctrl-C stops at any time and loses no answer. Nothing is spent before you say yes to the fit.")
    for step in (walk.declare, walk.budget, walk.plan, walk.fit, walk.report, walk.dossier):
        step()
    if as_json:
        made = {"release": walk.answers["release"], "report": f"{walk.stem}.html", "ledger": str(walk.ledger)}
        typer.echo(json_text(made | {"dossier": walk.answers.get("dossier")}))


class Walk:
    """The steps, and what was answered so far."""

    def __init__(self, table: Path) -> None:
        self.table, self.stem = table, table.with_suffix("")
        self.lines, self.schema = Path(f"{self.stem}.lines.txt"), Path(f"{self.stem}.schema.json")
        self.ledger, self.kept = Path(f"{self.stem}.ledger"), Path(f"{self.stem}.start.json")
        self.answers: dict[str, Any] = {}
        if self.kept.exists():
            self.answers = library.parse(library.read_text(self.kept), repr(str(self.kept)))
        if not isinstance(self.answers, dict):
            raise InputError(f"{str(self.kept)!r} does not contain the answers of an earlier start. Remove it.")

    def declare(self) -> None:
        """A line for each column, then a schema; only the header is read."""
        _title("1 of 6: declare what is public")
        lines_at, schema_at = (path.stat().st_mtime_ns if path.exists() else -1 for path in (self.lines, self.schema))
        if 0 <= schema_at >= lines_at:  # else the lines were corrected since
            typer.echo(f"{_shown(self.schema)} exists already; continuing with it.")
            return
        file = self._dialect()
        source = self.table if file is None else library.CsvFile(self.table, file)
        names, types = library.column_names(source), library.declared_types(source)
        typer.echo(f"Columns: {_shown(', '.join(names))}" + ("" if file is None else f" ({file.words})"))
        kept = self.lines.read_text(encoding="utf-8").splitlines() if self.lines.exists() else []
        lines = asked_lines(names, types, kept, self._keep_lines)
        if not any("[target]" in line for line in lines):
            known = [line.split(":")[0] for line in lines if ":" in line and ": unit" not in line]
            target = until("Which column is the outcome?", _among(known))
            self._keep_lines([f"{line} [target]" if line.startswith(f"{target}:") else line for line in lines])
        encoding = self.answers.get("encoding")
        given = () if encoding is None else ("--encoding", encoding)
        self._run("schema", "new", str(self.table), *given, "--declare", str(self.lines), "--out", str(self.schema))
        self._relation()
        if typer.confirm("Check the rows against it? The answer is for your eyes only.", default=True):
            self._check()

    def _keep_lines(self, lines: list[str]) -> None:
        write_text(self.lines, "\n".join(lines) + "\n")

    def _dialect(self) -> Any:
        """How the file is written; its encoding is asked for where it is not UTF-8."""
        while True:
            try:
                return dialect(self.table, None, None, self.answers.get("encoding"))
            except library.OtherBytes:
                self.answers.pop("encoding", None)
                typer.echo(f"{_shown(self.table)} is not UTF-8 text. Excel in Western Europe writes windows-1252.")
                asked = "Which encoding does it have?"
                self._ask("encoding", asked, lambda text: library.Dialect(encoding=text).encoding, "windows-1252")

    def budget(self) -> None:
        """One ledger for everything that will ever be released from these rows."""
        _title("2 of 6: open a budget")
        if self.ledger.exists():
            self._run("ledger", "show", str(self.ledger))
            return
        self._ask("dataset", "What is the dataset called?", str, self.table.stem)
        self._relation()
        self._ask("budget", "Total epsilon of all releases from this dataset, ever?", _number(POSITIVE), 3)
        self._ask("budget_delta", "Total delta (far below one over the number of records)?", _number(OPEN_UNIT), 1e-5)
        given = {name: str(self.answers[name]) for name in ("dataset", "relation", "budget", "budget_delta")}
        typer.echo("This is final: the budget cannot be raised later.")
        if not typer.confirm("Open it?", default=True):
            raise typer.Abort
        unit = library.read_schema(self.schema).unit  # the ledger counts in the unit that the schema declares
        column = None if unit is None else unit.column
        keyed = () if unit is None or column is None else ("--unit", column, "--most-records", str(unit.most_records))
        fixed = ("--dataset", given["dataset"], "--relation", given["relation"], "--epsilon", given["budget"])
        self._run("ledger", "open", str(self.ledger), *fixed, "--delta", given["budget_delta"], *keyed)

    def plan(self) -> None:
        """What a budget would give, as often as asked; no row is read."""
        _title("3 of 6: plan before you spend")
        self._relation()
        models = tuple(filter(_asks_nothing_more, REGRESSIONS))
        self._ask("model", f"Which model ({', '.join(models)})?", _among(models), "logistic")
        self._ask("delta", "Delta of the fit?", _number(OPEN_UNIT), 1e-6)
        while True:
            self._ask("epsilon", "Epsilon of the fit?", _number(POSITIVE), 1)
            self._run("plan", self.answers["model"], "--schema", str(self.schema), *self._privacy())
            if typer.confirm("Fit with this epsilon?", default=True):
                return
            self.answers.pop("epsilon")

    def fit(self) -> None:
        """The one step that spends; said before it does."""
        _title("4 of 6: fit")
        said = self.answers.get("release")
        if said is not None and Path(said).is_dir():
            typer.echo(f"{_shown(said)} exists already; continuing with it.")
            return
        names = (f"{self.stem}-release{place}" for place in ("", *(f"-{number}" for number in range(2, 1000))))
        folder = next(one for one in map(Path, names) if not one.exists())
        spends = f"epsilon {self.answers['epsilon']} at delta {self.answers['delta']} from {_shown(self.ledger)}"
        self._check()
        if not typer.confirm(f"This reads the rows and spends {spends}. Go on?", default=False):
            raise typer.Abort
        private = (*self._privacy(), "--ledger", str(self.ledger), "--out", str(folder))
        self._run("fit", self.answers["model"], str(self.table), "--schema", str(self.schema), *private)
        self._keep(release=str(folder))

    def report(self) -> None:
        """What was found, and the file to hand over."""
        _title("5 of 6: read and hand over")
        release = self.answers["release"]
        self._run("show", release)
        self._run("report", release, "--ledger", str(self.ledger), "--out", f"{self.stem}.html")
        typer.echo(f"Done: {_shown(release)} and {_shown(f'{self.stem}.html')} may be published, and nothing else.")

    def dossier(self) -> None:
        """A folder that answers a reviewer, signed by a key that is made here where there is none."""
        _title("6 of 6: a dossier for the reviewer")
        folder = Path(f"{self.answers['release']}-dossier")
        if folder.exists():
            typer.echo(f"{_shown(folder)} is there.")
            return
        if not typer.confirm("Answer a reviewer's twenty questions in a signed folder?", default=True):
            return
        typer.echo("Answer in a sentence each; - leaves a question open, with room to write.")
        for name, words in library.STATEMENTS.items():
            self._ask(name, f"{words[:1].upper()}{words[1:]}", str, "-")
        said = {name: self.answers[name] for name in library.STATEMENTS if self.answers[name] != "-"}
        statements, key = Path(f"{self.stem}.statements.json"), Path(f"{self.stem}.key")
        write_text(statements, json.dumps(said, indent=2, ensure_ascii=False) + "\n")
        signed: tuple[str, ...] = ()
        try:
            library.need_cryptography()
        except InputError as error:
            typer.echo(f"Not signed: {error}")
        else:
            if not key.exists():
                seal = typer.confirm(f"Seal the key {_shown(key)} that signs with a passphrase?", default=True)
                self._run("sign", "key", str(key), *(("--passphrase",) if seal else ()))
            signed = ("--key", str(key))
        more = ("--statements", str(statements)) if said else ()
        given = (self.answers["release"], "--ledger", str(self.ledger), *signed, *more)
        self._run("sign", "dossier", *given, "--out", str(folder))
        self._keep(dossier=str(folder))
        if signed:
            self._run("sign", "verify", str(folder), "--key", library.fingerprint(library.public_of(key)))

    def _privacy(self) -> tuple[str, ...]:
        given = self.answers
        return "--epsilon", str(given["epsilon"]), "--delta", str(given["delta"]), "--relation", given["relation"]

    def _relation(self) -> None:
        """The relation of the ledger, or the one that it will be opened with."""
        if self.ledger.exists():
            self._keep(relation=library.Ledger.at(self.ledger).budget.relation.value)
        asked = "Is the number of records public (replace-one) or not (add-remove)?"
        self._ask("relation", asked, _among(Relation), "replace-one")

    def _check(self) -> None:
        """What the rows do not keep of the schema, before anything is spent; a table that a fit refuses ends here."""
        self._run("schema", "check", str(self.schema), str(self.table), "--relation", self.answers["relation"])

    def _ask(self, name: str, words: str, read: Callable[[str], Any], default: Any) -> None:
        if name not in self.answers:
            self._keep(**{name: until(words, read, default)})

    def _keep(self, **answers: Any) -> None:
        self.answers |= answers
        write_text(self.kept, json.dumps(self.answers, indent=2) + "\n")

    def _run(self, *words: str) -> None:
        """Run a command of this program, shown as one would type it; a refusal ends the walk."""
        from sordino.cli.main import main  # noqa: PLC0415

        typer.echo("\n" + printable(f"$ sordino {shlex.join(words)}"))
        code = main(words)
        if code == 130:
            raise KeyboardInterrupt
        if code:
            files = f"{_shown(self.lines)} or {_shown(self.schema)} if the message is about them"
            again = f"run `sordino start {_shown(self.table)}` to continue"
            typer.echo(f"sordino: the step above was refused. Correct {files}, and {again}.", err=True)
            raise typer.Exit(code)


def _title(words: str) -> None:
    typer.echo(f"\n{words}\n{'-' * len(words)}")


def _shown(text: Any) -> str:
    return printable(str(text))


def _among(words: Iterable[str]) -> Callable[[str], str]:
    return lambda text: one_of("the answer", text, tuple(words))


def _number(allowed: Interval) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise InputError(f"Expected a number, got {text!r}.") from None
        return number("the answer", value, allowed)

    return read


def _asks_nothing_more(model: str) -> bool:
    """Whether every option of a model has a default."""
    try:
        for one in MODELS[model][0].options:
            one.check(one.name, one.default)
    except InputError:
        return False
    return True
