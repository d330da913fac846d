"""Execute the cells of the notebooks and write them with their outputs: `python examples/notebooks/build.py`.

A notebook is a list of texts and code cells in NOTEBOOKS below. Cells run in this process, in order, in an empty
folder. Their output is what they print and the value of their last expression. Everything is seeded, and a test
compares the files.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROWS = """import numpy as np

rng = np.random.default_rng(2026)
n = 6000
age = rng.normal(62, 14, n).clip(18, 100).round()
treated = rng.random(n) < 0.5
ward = rng.choice(["medicine", "surgery"], n, p=[0.6, 0.4])
score = -3.0 + 0.04 * age - 0.5 * treated + 0.3 * (ward == "surgery")
stays = {
    "age": age,
    "treated": np.where(treated, "yes", "no"),
    "ward": ward,
    "readmitted": np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no"),
}"""
DECLARED = '''from sordino.data import declared_lines

schema = declared_lines("""
records = 6000
age: 18..100
treated: yes/no
ward: medicine|surgery
readmitted: yes/no [target]
""")
schema.feature_names'''
NOTEBOOKS: dict[str, list[tuple[str, str]]] = {
    "read": [
        (
            "markdown",
            "# Fit and read\n\nThe rows are simulated with a seed. `random_state` makes the fit repeatable. Anyone who "
            "knows it can subtract the noise, so omit it for a real release.",
        ),
        ("code", ROWS),
        ("markdown", "Declare what is public. Take bounds from what the columns mean, not from the rows."),
        ("code", DECLARED),
        (
            "code",
            'import sordino\n\nplan = sordino.plan("logistic", schema, epsilon=1.0, delta=1e-6, '
            'relation="replace-one")\n{e: round(plan.at(e).line("treated").width, 3) for e in (0.5, 1.0, 2.0)}',
        ),
        (
            "code",
            'model = sordino.PrivateLogisticRegression(\n    epsilon=1.0, delta=1e-6, relation="replace-one", '
            "schema=schema, random_state=0\n).fit(stays)\nmodel.summary()",
        ),
        ("markdown", "Effects in natural units: differences of probabilities, not of log odds."),
        ("code", "model.effects()"),
        ("code", 'model.margins("age", at={"treated": "yes"})'),
        ("code", "print(model.summary().to_latex()[:400])"),
        ("code", 'draws = model.named_draws(1000, seed=1)\nround(float((draws["treated"] < 0).mean()), 3)'),
    ],
    "look-and-choose": [
        (
            "markdown",
            "# Private summaries, selection and checks\n\nThe ledger charges every question before a row is read. Here "
            "a seed replaces the secret noise, so that the outputs are repeatable.",
        ),
        ("code", ROWS),
        ("code", DECLARED),
        (
            "code",
            'import sordino\n\nbook = sordino.Ledger.open("stays.ledger", dataset="stays", '
            'relation="replace-one", epsilon=4.0, delta=1e-5)\nbudget = {"delta": 1e-6, "ledger": book, '
            '"random_state": 2}\nfound = sordino.explore.look(\n    stays, ["mean: age", "histogram: ward"], '
            'schema=schema, epsilon=0.3, relation="replace-one", **budget\n)\n'
            "for text, rows in found.answers:\n    print(text)\n    for row in rows[:4]:\n        "
            'print(f"  {row.name}: {row.value:.0f} ({row.low:.0f}, {row.high:.0f})")',
        ),
        (
            "markdown",
            "Each trial draws a candidate, fits it and scores it with noise; the best score wins. A candidate may "
            "never be drawn: with seed 0 the worse of these two is returned. Seed 2 shows the other case. The output "
            "says how likely each case is.",
        ),
        (
            "code",
            'choice = sordino.explore.choose(\n    "logistic",\n    stays,\n    ["readmitted ~ ward", '
            '"readmitted ~ age + treated + ward"],\n    schema=schema,\n    epsilon=1.5,\n    relation="replace-one",\n'
            "    trials=12,\n    **budget,\n)\nprint(choice)\nprint(choice.release.bound.theorem)",
        ),
        ("code", "sordino.explore.check(choice.release, stays, epsilon=0.5, **budget)"),
        ("code", "[(entry.sequence, entry.spec.algorithm.words[:60]) for entry in book.entries()]"),
    ],
    "certify-and-audit": [
        (
            "markdown",
            "# Certify and audit\n\nAn upper bound by a theorem and a lower bound by exact calculation, for a "
            "described run. No data are needed.",
        ),
        (
            "code",
            'import sordino\nfrom sordino.core.spec import Spec\n\nspec = Spec.from_json("""\n{"algorithm": {"kind": '
            '"noised-sums", "query": "a sum", "records": 1000, "rounds": 10,\n  "sampling": {"scheme": "full"}, '
            '"contribution": 1.0, "noise_multiplier": 20.0, "unit": "record"},\n "relation": "add-remove", "view": '
            '"all-iterates", "delta": 1e-5}\n""")\nbound = sordino.accounting.tightest(spec, 1e-5)\n'
            "print(bound.theorem, round(bound.guarantee.epsilon(1e-5), 4))",
        ),
        (
            "code",
            "explained = sordino.accounting.explain(spec, 1e-5)\nfor one, epsilon in explained.bounds[:5]:\n    "
            'print(f"{one.theorem:40} {epsilon:.4f}")',
        ),
        ("markdown", "How tight is the bound? The audit computes exactly what the worst case reveals."),
        ("code", "lower = sordino.audit(spec, delta=1e-5)\nprint(lower.method, round(lower.epsilon, 4))"),
    ],
}


def executed(cells: list[tuple[str, str]]) -> dict[str, Any]:
    """A notebook with its outputs."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    made = []
    for place, (kind, text) in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{place}", "metadata": {}, "source": _lines(text)}
        if kind == "code":
            count = sum(one["cell_type"] == "code" for one in made) + 1
            cell |= {"execution_count": count, "outputs": _run(text, namespace, count)}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _run(text: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(tree, "cell", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {"text/plain": _lines(str(value) if hasattr(value, "_repr_html_") else repr(value))}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = _lines(value._repr_html_())
        outputs.append({"data": shown, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def built(name: str) -> str:
    """The text of a notebook's file, executed in an empty folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return json.dumps(executed(NOTEBOOKS[name]), indent=1, ensure_ascii=False) + "\n"
        finally:
            os.chdir(before)


if __name__ == "__main__":
    for notebook in sys.argv[1:] or NOTEBOOKS:
        (HERE / f"{notebook}.ipynb").write_text(built(notebook), encoding="utf-8")
        sys.stdout.write(f"{notebook}.ipynb\n")
