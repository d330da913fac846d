"""A new column kind or reader is one file in its package, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import sordino

KIND = '''
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sordino.core.spec.fields import Flag
from sordino.data.columns.base import REFUSE, Cells, ColumnKind, Missing, MissingRule, column_kind
from sordino.data.table import as_numbers


@column_kind("share")
@dataclass(frozen=True)
class Share(ColumnKind):
    """A share of a whole, in percent or not."""

    percent: Annotated[bool, Flag(), "whether 100 is the whole"]
    missing: Annotated[MissingRule, Missing(Flag())] = REFUSE

    bound = width = 1.0

    def read(self, name, column, tokens):
        values = as_numbers(column, name, tokens) / (100.0 if self.percent else 1.0)
        missing = np.isnan(values)
        self.missing.check(name, missing)
        return Cells(np.clip(values, 0.0, 1.0), missing)

    def decode(self, encoded):
        return np.asarray(encoded) * (100.0 if self.percent else 1.0)

    def extremes(self):
        return self.decode(1.0).item(), 0.0

    target_extremes = extremes
'''
READER = """
from sordino.data.sources.csv_files import read_csv
from sordino.data.sources.registry import is_path_ending, register_source

register_source("a path ending in .bars", is_path_ending(".bars"), lambda path: read_csv(path, delimiter="\\t"))
"""
USED = """
import json
from sordino.core.bound import Relation
from sordino.data import encode, json_schema, new_schema_template, read_table, schema_from_dict, schema_to_dict
template = new_schema_template(["rate", "ill"], target="ill", kinds={"rate": "share", "ill": "share"})
assert template["columns"][0] == {"name": "rate", "kind": "share", "percent": None, "missing": "refuse"}
template["records"] = 2
template["columns"][0]["percent"] = True
template["target"]["percent"] = False
schema = schema_from_dict(template)
assert schema_to_dict(schema) == template
assert "Share" in json_schema()["$defs"]
encoded = encode(schema, read_table("table.bars"), Relation.REPLACE_ONE)
print(json.dumps([encoded.features.tolist(), encoded.target.tolist(), schema.target_width_certificate().value]))
"""


def test_a_new_kind_and_a_new_reader_are_one_file_each(tmp_path):
    package = tmp_path / "src" / "sordino"
    shutil.copytree(Path(sordino.__file__).parent, package)
    (package / "data" / "columns" / "share.py").write_text(KIND)
    (package / "data" / "sources" / "bars_file.py").write_text(READER)
    (tmp_path / "table.bars").write_text("rate\till\n50\t1\n250\t0\n")
    run = subprocess.run(
        [sys.executable, "-c", USED],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[[[1.0, 0.5], [1.0, 1.0]], [1.0, 0.0], 1.0]"
