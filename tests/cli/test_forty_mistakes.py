"""Forty typical mistakes: each gets one line that says what to do, and nothing is spent where no row had to be read."""

import json
import re
import shutil

import numpy as np
import pytest

from sordino.data import declared_lines, schema_to_text
from sordino.ledger import Ledger
from tests.cli.console import refusal

ROWS = 60
LINES = f"records = {ROWS}\nage: 0..110\nward: medicine|surgery\nill: yes/no [target]"
BUDGET = "--epsilon 1 --delta 1e-6 --relation replace-one"
POOR = "--epsilon .05 --delta 1e-6 --relation replace-one"
# A constant is planned in no time; what is refused here is refused for every method.
FIT = f"fit logistic t.csv --schema s.json {BUDGET} --ledger l.ledger --out r --method constant"
LOOK = f"look t.csv --schema s.json {BUDGET} --ledger l.ledger --out r --ask"
SECRET = "HIV-positive"
NEVER, AFTER = "nothing is spent", "a row had to be read"


def Mistake(command, words, *, spent=NEVER, code=2, **files):
    """A command, what is wrong with the files before it, and what the one line says."""
    return command, words, spent, code, files


def lines(text):
    return schema_to_text(declared_lines(text))


def changed(**keys):
    return json.dumps(json.loads(lines(LINES)) | keys)


def table(header="age,ward,ill", cell="50", delimiter=","):
    rng = np.random.default_rng(0)
    rows = [
        [str(rng.integers(20, 90)), str(rng.choice(["medicine", "surgery"])), str(rng.choice(["yes", "no"]))]
        for _ in range(ROWS)
    ]
    rows[3][0] = cell
    return header + "\n" + "".join(delimiter.join(row) + "\n" for row in rows)


def extra():
    """One column more than the schema knows."""
    first, *rest = table().splitlines()
    return "\n".join([f"{first},remark", *(f"{line},x" for line in rest)]) + "\n"


MISTAKES = {
    "a file that is not there": Mistake(FIT.replace("t.csv", "patients.csv"), "Check the path"),
    "a folder instead of a file": Mistake(FIT.replace("t.csv", "folder.csv"), "Name a file inside it"),
    "an Excel file": Mistake("schema new t.csv", "Save its table as CSV", t=b"PK\x03\x04 and so on"),
    "an Excel path": Mistake("schema new t.xlsx", "convert it first"),
    "an empty file": Mistake("schema new t.csv", "Check that it was written", t=b""),
    "no header": Mistake("schema new t.csv", "Add a header", t="1,2,3\n4,5,6\n"),
    "a repeated column name": Mistake("schema new t.csv", "rename them", t="age,age\n1,2\n"),
    "two delimiters": Mistake("schema new t.csv", "--delimiter", t="a;b,c\n1;2,3\n"),
    "another encoding": Mistake("schema new t.csv", "windows-1252", t="größe,b\n1,2\n".encode("latin-1")),
    "a family without files": Mistake("schema new visits-*.csv", "Check the pattern"),
    "a column that is misspelt": Mistake("schema new t.csv --target il", "check the spelling"),
    "a line without a range": Mistake("schema new t.csv --column age:old", "write a range '0..110'"),
    "columns without lines": Mistake(
        "schema new t.csv --column age:0..110", "'ward: LOW..HIGH' (a number), 'ward: yes/no'"
    ),
    "two targets": Mistake(
        "schema new t.csv --column age:0..110[target] --column ward:a|b[target] --column ill:yes/no", "mark one of them"
    ),
    "bounds the wrong way round": Mistake(
        "schema check s.json", "columns.age.high to be above low", s=changed().replace("110.0", "-110.0")
    ),
    "a schema with nulls": Mistake(FIT, "records is missing", s=changed(records=None)),
    "a schema that is a table": Mistake(FIT.replace("s.json", "t.csv"), "Expected the schema to be JSON"),
    "a key that nobody knows": Mistake(FIT, "the keys of", s=changed(colour="red")),
    "a schema inferred from rows": Mistake(
        FIT, "Declare them from public knowledge", s=changed(reads_private_data=True)
    ),
    "no target": Mistake(FIT, "The schema has no target", s=changed(target=None)),
    "a number as a class": Mistake(
        FIT, "Expected a category or boolean target", s=lines(LINES.replace("yes/no", "0..1"))
    ),
    "a class as a number": Mistake(FIT.replace("logistic", "poisson"), "A target of counts must be a number"),
    "a model that is not there": Mistake(FIT.replace("logistic", "forest"), "one of cox, linear, logistic"),
    "a method that is not there": Mistake(FIT.replace("constant", "magic"), "one of auto"),
    "an epsilon below 0": Mistake(FIT.replace("--epsilon 1", "--epsilon -1"), "epsilon"),
    "an epsilon that is no number": Mistake(FIT.replace("--epsilon 1", "--epsilon nan"), "epsilon"),
    "no relation": Mistake(FIT.replace("--relation replace-one", ""), "--relation"),
    "a seed below 0": Mistake(f"{FIT} --seed -1", "random_state"),
    "a delta above 1": Mistake(FIT.replace("--delta 1e-6", "--delta 2"), "delta"),
    "a relation that is not there": Mistake(FIT.replace("replace-one", "remove"), "add-remove, replace-one"),
    "a folder that exists": Mistake(FIT.replace("--out r", "--out folder.csv"), "Name a new folder"),
    "a folder inside nothing": Mistake(FIT.replace("--out r", "--out no/r"), "make 'no' first"),
    "more than the budget": Mistake(FIT.replace("--epsilon 1", "--epsilon 30"), "budget", code=3),
    "a ledger that is not there": Mistake(FIT.replace("l.ledger", "no.ledger"), "ledger"),
    "too little to learn from": Mistake(
        FIT.replace("--epsilon 1", "--epsilon 0.01").replace("constant", "auto"),
        "Nothing was read and nothing was spent",
    ),
    "a column that the table lacks": Mistake(FIT, "correct the schema or the table", s=lines(f"{LINES}\nbmi: 10..60")),
    "a column that nobody declared": Mistake(FIT, "extra_columns to 'ignore'", t=extra()),
    "an option of another model": Mistake(f"{FIT} --components 3", "omit it for"),
    "a width in words": Mistake(f"{FIT.replace('logistic', 'network-classifier')} --hidden 8,x", "Expected hidden"),
    "a formula with a function": Mistake(f"{FIT} --formula ill~log(age)", "transform columns by public rules before"),
    "a formula with a misspelt name": Mistake(f"{FIT} --formula ill~agee", "the schema declares"),
    "a question in other words": Mistake(f"{LOOK} median:age", "begin with one of count"),
    "a question about no column": Mistake(f"{LOOK} mean:agee", "it has 'age', 'ward', 'ill'"),
    "a mean of words": Mistake(f"{LOOK} mean:ward", "ask for its histogram"),
    "bounds of too few records": Mistake(f"{LOOK.replace(BUDGET, POOR)} bounds:age", "times as much"),
    "a cell that is no number": Mistake(FIT, "sordino schema check", spent=AFTER, t=table(cell=SECRET)),
    "a decimal comma": Mistake(
        FIT, "If its decimal mark is a comma, declare that", spent=AFTER, t=table(cell='"50,5"')
    ),
    "another number of records": Mistake(FIT, "correct the declaration or the table", s=changed(records=59)),
    "a missing cell": Mistake(FIT, "declare its missing rule", spent=AFTER, t=table(cell="")),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "t.csv").write_text(table())
    (folder / "s.json").write_text(lines(LINES))
    (folder / "folder.csv").mkdir()
    Ledger.open(folder / "l.ledger", "clinic", "replace-one", 10.0, 1e-5)
    return folder


@pytest.mark.parametrize("name", MISTAKES)
def test_one_line_says_what_to_do(name, prepared, tmp_path, monkeypatch, capsys):
    command, said, spent, code, files = MISTAKES[name]
    here = tmp_path / "here"
    shutil.copytree(prepared, here)
    monkeypatch.chdir(here)
    for file, content in files.items():
        path = here / {"t": "t.csv", "s": "s.json"}[file]
        path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    # A line of --column or --ask is one word of the command here, and has a blank behind its colon.
    words = [re.sub(r"^(\w+):", r"\1: ", word) if ":" in word else word for word in command.split()]
    words = [word.replace("[target]", " [target]") for word in words]
    line = refusal(capsys, *words, code=code, quiet="listed above" not in said)
    assert said in line
    assert SECRET not in line
    assert len(Ledger.at(here / "l.ledger").entries()) == (0 if spent is NEVER else 1)
    assert not (here / "r").exists()
