"""`sordino schema new|impute|check`: the public schema file that a person declares."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sordino.cli import library
from sordino.cli.shared import AsJson, IsJson, OutFile, Words, answer, command, group, print_document, write_text
from sordino.core.bound import Relation
from sordino.core.validate import InputError, one_of, printable

if TYPE_CHECKING:
    from sordino.data import Dialect


@command(
    "new",
    "Write a schema file, or one to fill in.",
    "sordino schema new patients.csv --target ill --out lines.txt",
    "sordino schema new patients.csv --declare lines.txt --out schema.json",
    "sordino schema new patients.csv --column 'records = 600' --column 'age: 0..110' --column 'ill: yes/no [target]' "
    "--out schema.json",
)
def new(
    data: Annotated[Path, Argument(metavar="DATA", help="CSV, Parquet or Arrow file; its header and types are read.")],
    target: Annotated[str | None, Option(help="Name of the target column.")] = None,
    unit: Annotated[str | None, Option(metavar="NAME", help="The column that identifies the privacy unit.")] = None,
    declare: Annotated[Path | None, Option(help="Lines like 'age: 0..110', or a codebook: Table Schema, CSVW.")] = None,
    column: Annotated[Words, Option(metavar="LINE", help="One line, or 'records = 600'; may be repeated.")] = None,
    bounds: Annotated[Path | None, Option(help="Release of `sordino look`: take its charged bounds.")] = None,
    ask: Annotated[bool, Option("--ask", help="Ask for each column at the terminal.")] = False,
    delimiter: Annotated[str | None, Option(help="CSV only: the delimiter. Default: read from the header.")] = None,
    decimal: Annotated[str | None, Option(help="CSV only: the decimal mark. Default: a comma if ';' delimits.")] = None,
    encoding: Annotated[str | None, Option(help="CSV only: such as windows-1252. Default: UTF-8.")] = None,
    output: OutFile = None,
    as_json: IsJson = False,
) -> None:
    """Write a schema file from lines such as 'age: 0..110'; without any, draft the lines to fill in.

    Lines come from --declare, from --column or from your answers with --ask. A draft has a line for every column, from
    the header and the file's own types. Take bounds and lists of words from public knowledge, never from the rows. With
    --unit all records that share a value of that column are protected together, and `records` counts such units.
    """
    file = dialect(data, delimiter, decimal, encoding)
    source = data if file is None else library.CsvFile(data, file)
    if declare is not None and declare.suffix.lower() == data.suffix.lower():
        raise InputError(f"`--declare` needs a text file of lines, not {str(declare)!r}. See --help.")
    text = "" if declare is None else library.read_text(library.existing_file(declare))
    book = declare is not None and declare.suffix.lower() == ".json"
    drafted = library.codebook_lines(library.parse(text, repr(str(declare)))) if book else text.splitlines()
    lines = [*(column or ()), *(one for one in drafted if not book or not _has_line(column or [], one.split(":")[0]))]
    charged = {} if bounds is None else _charged(bounds, lines)
    lines += charged.values()
    whole, names = ask or bool(lines), library.column_names(source)
    if whole:
        lines += [f"{name}: unit of 8" for name in (unit,) if name and not _has_line(lines, name)]
        if ask:
            lines = asked_lines(names, library.declared_types(source), lines)
        schema = library.declared_lines("\n".join(lines), names, target)
        schema = replace(schema, file=schema.file or file, charged=tuple(charged) or None)
        text = library.schema_to_text(schema)
    elif output is not None and output.suffix.lower() == ".json":
        raise InputError("Without lines there is no schema yet, only a draft of its lines. Use `--out lines.txt`.")
    else:
        text = library.drafted_lines(names, library.declared_types(source), target, unit)
    if not _written(text, output) or as_json:
        return
    shown, rows = printable(str(output)), printable(str(data))
    if not whole:
        given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}
        named = "".join(f" --{name} '{value}'" for name, value in given.items() if value is not None)
        then = f"sordino schema new {rows}{printable(named)} --declare {shown} --out schema.json"
        typer.echo(f"{shown}: fill in every line; then run: {then}")
        return
    typer.echo(f"{shown}: written; now run: sordino schema check {shown} {rows}")
    if file is not None:
        typer.echo(f"{rows}: read as {file.words}; the schema records this, and you can change it there.")


def _written(text: str, output: Path | None) -> bool:
    """Whether a schema went into a file; without one it is printed."""
    print_document(text) if output is None else write_text(output, text)
    return output is not None


def dialect(data: Path, delimiter: str | None, decimal: str | None, encoding: str | None) -> "Dialect | None":
    """What is given of how a CSV file is written; a header split by semicolons makes the decimal mark a comma."""
    given = any(one is not None for one in (delimiter, decimal, encoding))
    if not library.is_csv_path(data):
        if given:
            raise InputError(f"`--delimiter`, `--decimal` and `--encoding` are for CSV files; {str(data)!r} is none.")
        return None
    mark = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
    found = library.CsvFile(data, library.Dialect(delimiter=mark, encoding=encoding)).headers()[0].delimiter
    if not given and found in ",\t|":
        return None
    guessed = "," if found == ";" else "."
    return library.Dialect(delimiter=found, decimal=decimal or guessed, encoding=encoding)


def _charged(release: Path, lines: list[str]) -> dict[str, str]:
    """The lines that a look suggests for columns that have none, by their names."""
    found = library.bounds_lines(library.read_release(release))
    if not found:
        raise InputError(f"The look {str(release)!r} suggests no bounds. Ask it 'bounds: NAME'.")
    named = {line.rpartition(":")[0]: line for line in found}
    return {name: line for name, line in named.items() if not _has_line(lines, name)}


def _has_line(lines: list[str], name: str, sign: str = ":") -> bool:
    plain = map(str.lstrip, lines)
    return any(line.startswith(name) and line[len(name) :].lstrip().startswith(sign) for line in plain)


_HOW = (
    "Give the values of each column, from public knowledge and not from the rows: 0..110, a|b|c, yes/no, I < II,\n"
    "2015-01-01..2024-12-31, unit of 8 (a person's id), or ignore; [target] or [missing=indicator] may follow.\n"
    "Type back to correct the previous answer."
)
_MISSING = "Which words mean a missing cell, besides the empty cell (for instance NA|n/a|.)? - for none"


def asked_lines(
    names: tuple[str, ...], types: dict[str, str], lines: list[str], keep: Callable[[list[str]], None] = lambda _: None
) -> list[str]:
    """The lines that are there, and an answer for every column that has none; `keep` gets them after every answer.

    What identifies a person comes first, because it says what the number of records counts.
    """
    begun, persons = list(lines), [name for name in names if library.sounds_like_an_identifier(name)]
    typer.echo(_HOW)
    order = [*persons, "records", *(name for name in names if name not in persons), "missing_tokens"]
    settings = ("records", "missing_tokens")
    sign = {name: "=" if name in settings else ":" for name in order}
    left = [name for name in order if not _has_line(begun, name, sign[name]) and f"# {name} = none" not in begun]
    answers: list[str] = []
    while len(answers) < len(left):
        name = left[len(answers)]
        start = f"{name}{' ' if name in settings else ''}{sign[name]}"
        said = until(_question(name, types, [*begun, *answers]), partial(_line, start))
        answers = answers[:-1] if said is None else [*answers, said]
        keep([*begun, *answers])
    return [*begun, *answers]


def _question(name: str, types: dict[str, str], lines: list[str]) -> str:
    """What is asked of a column, or of the whole table."""
    if name == "missing_tokens":
        return _MISSING
    if name != "records":
        return f"{name}: such as {library.suggested_line(name, types.get(name)).split(': ', 1)[1]}"
    unit = next((line.split(":")[0].strip() for line in lines if ": unit" in line), None)
    counted = "records" if unit is None else f"persons (different values of {unit})"
    return f"How many {counted}, such as 600"


def _line(start: str, text: str) -> str | None:
    """The line that an answer makes; None to go back."""
    if text == "back":
        return None
    if text == "-" and start.endswith("="):
        return f"# {start} none"
    line = f"{start} {text}"
    library.check_line(line)
    return line


def until(words: str, read: Callable[[str], Any], default: Any = None) -> Any:
    """An answer that can be read; a mistake is said in a sentence and asked for again."""
    while True:
        try:
            return read(str(typer.prompt(printable(words), default=default)).strip())
        except InputError as error:
            typer.echo(printable(str(error)), err=True)


@command("impute", "Declare values for missing cells from a charged look.", "sordino schema impute schema.json look")
def impute(
    schema: Annotated[Path, Argument(metavar="SCHEMA", help="Schema file.")],
    release: Annotated[Path, Argument(metavar="RELEASE", help="Release folder of `sordino look`.")],
    output: OutFile = None,
    as_json: IsJson = False,
) -> None:
    """Declare values for missing cells: the noised means and most frequent words of a look.

    The look was charged, so this costs nothing more; the schema marks these constants as charged. Columns without
    an answer in the look keep their rule.
    """
    made = library.imputed(library.read_schema(schema), library.read_release(release))
    if _written(library.schema_to_text(made), output) and not as_json:
        named = ", ".join(made.charged or ())
        typer.echo(printable(f"{output}: missing cells of {named} will count as the answers of the look"))


@command("check", "List what a run would refuse.", "sordino schema check schema.json patients.csv")
def check(
    schema: Annotated[Path, Argument(metavar="SCHEMA", help="Schema file.")],
    data: Annotated[Path | None, Argument(metavar="[DATA]", help="CSV, Parquet or Arrow file to check.")] = None,
    relation: Annotated[str | None, Option(help="replace-one or add-remove. Default: both.")] = None,
    as_json: AsJson = False,
) -> None:
    """List everything in a schema, and in a table if given, that a run would refuse or warn about.

    Costs no budget, but its findings about a table come from private rows: keep them to yourself. Exits with code 2
    if a run would stop. Under replace-one a run stops if the number of records differs from the declared one; use
    `--relation add-remove` if it may differ.
    """
    from sordino.data import check as schema_findings  # noqa: PLC0415

    related = None if relation is None else Relation(one_of("--relation", relation, tuple(Relation)))
    declared = library.read_schema(schema)
    table = None if data is None else library.read_table(declared.source(data))
    findings = schema_findings(declared, table, related)
    lines = []
    for finding in findings:
        where = f" ({finding.column})" if finding.column else ""
        private = " NON-PRIVATE" if finding.reads_private_data else ""
        lines.append(f"{finding.level}{private}{where}: {finding.message}")
    levels = [finding.level for finding in findings]
    counts = ((levels.count(word), word) for word in ("error", "warning"))
    errors, warned = (f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    if "error" not in levels:
        whole = "The schema is complete" if data is None else "The schema and the table fit together"
        lines.append(f"{whole}, with {warned}." if "warning" in levels else f"{whole}.")
    answer(as_json, [finding._asdict() for finding in findings], *lines)
    if "error" in levels:
        wrong = "The schema has" if data is None else "The schema and the table do not fit together:"
        raise InputError(f"{wrong} {errors}, listed above.")


app = group("Declare and check the public schema of a table.", new, impute, check)
