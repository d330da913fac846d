"""The page of bench/mutations.py: which mistakes an audit finds, case by case."""

from typing import Any

CONFIDENCE, RECORDS = 0.99, 60
SECONDS, LONGER = 4.0, 30.0  # of an audit, of the code as it is and with a mistake
_INTRODUCTION = f"""# Mistakes in the code, and what an audit says

Written by `python bench/mutations.py`; do not edit. Each mistake is made in a copy of the package, in all places at
once, without changing a word of any certificate. Then an estimator is fitted by each method ({RECORDS} records, three
columns, epsilon 1), every chain runs 160 steps, and `sordino audit --method replay` is asked at {100 * CONFIDENCE:g} %.
The first column is the code as it is. Seconds are CPU time of the slowest audit of the row, the fit included.

- *half the noise is drawn*: found by the size of what was added.
- *half the noise is asked for*: by shifts over scales; with replacement, by how far a record moves all sums together.
- *nothing is cut or clipped*: cells are not brought within their bounds, and the method's own cut is left out, too:
  rows into the ball (statistics), products to their clip (newton, ridge, gradients), weights, pulls, centre, scatter
  and curvature (bounded influence), targets (constant, output, ridge, statistics), contributions (chains, networks,
  mixtures). Where classes are counted nothing is cut; each label is counted twice instead. Found by records outside of
  the declared bounds: by little, by much, in one column alone.
- *divided by the number of rows*: or, in chains with random batches, by the number of records in the batch. The first
  is found by what leaves when a record is left out, the second by what leaves in other batches.
- *another sampler*: by participation.

A dash: the mistake cannot be made there. Under replace-one the number of rows is public, as is the size of batches that
always have the same; the counts of two classes divide by nothing.
"""
_NOTES = f"""
Notes. An audit stops at the first refutation. As it is, no further table is begun after {SECONDS:g} s of a clock on the
wall (a busy machine: between 1 and 24 pairs were tried), with a mistake after {LONGER:g} s; `sordino audit` has 100 s.
"""


# Methods that divide by no number of records, so that there is none to put the rows' in place of.
_DIVIDES_BY_NOTHING = ("logistic, constant",)
_RANDOM_SIZES = ("poisson", "random-allocation", "truncated-poisson", "min-separation")


def _there(mistake: str, case: str) -> bool:
    """Whether the mistake changes anything there: full batches are not sampled, and n is public under replace-one."""
    words = case.split(", ")
    if mistake == "another sampler":
        return words[0] == "chain" and words[1] != "full"
    if mistake != "divided by the number of rows":
        return True
    if words[0] == "chain":
        return words[1] in _RANDOM_SIZES or words[1:] == ["full", "add-remove"]
    return words[-1] == "add-remove" and not any(one in case for one in _DIVIDES_BY_NOTHING)


def page(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The page, from what was measured."""
    lines = [
        _INTRODUCTION,
        "| case | " + " | ".join(found) + " | seconds |",
        "| --- |" + " --- |" * len(found) + " ---: |",
    ]
    for case in found["as it is"]:
        cells = [rows[case]["kind"] if case in rows and _there(name, case) else "-" for name, rows in found.items()]
        seconds = max(rows[case]["seconds"] for rows in found.values() if case in rows)
        shown = [f"**{cell}**" if cell == "violated" else cell for cell in cells]
        lines.append(f"| {case} | " + " | ".join(shown) + f" | {seconds:.1f} |")
    return "\n".join(lines) + "\n" + _NOTES
