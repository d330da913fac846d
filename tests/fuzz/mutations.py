"""Changes that start from a valid file: damaged bytes, JSON values of the wrong kind, and text that means trouble."""

import copy
from typing import Any

from hypothesis import strategies as st

TROUBLE = (
    "",
    " ",
    "\0",
    "\x1b[2J\x1b]0;owned\x07",
    "two\nlines",
    "\u202eright to left",
    "../../outside",
    "/etc/passwd",
    "file:///etc/passwd",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "__import__('os').system('true')",
    "{{ 7 * 7 }}",
    "%s%n%x",
    "<script>alert(1)</script>",
    "[/red]",
    "'; DROP TABLE entries; --",
    "t.duckdb#t) AS x; COPY (SELECT 1) TO 'planted.py'; SELECT * FROM (SELECT * FROM t",
    "postgresql://localhost:1/clinic#visits",
    "NaN",
    "1e999",
    "１２",
    "é" * 300,
    "x" * 5000,
)
NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**64), 10**400, 1e308, -1e308, 5e-324, 0.1, -0.0)

text = st.one_of(st.sampled_from(TROUBLE), st.text(max_size=8))
scalar = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), text)
value = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=5
)


@st.composite
def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with a few places overwritten, cut out, filled in, repeated, swapped or lost from some place on."""
    for _ in range(draw(st.integers(1, 4))):
        if not content:
            return content
        first, second = sorted(draw(st.integers(0, len(content) - 1)) for _ in range(2))
        new = draw(st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(TROUBLE).map(str.encode)))
        content = draw(
            st.sampled_from(
                (
                    content[:first] + new + content[first + len(new) :],
                    content[:first] + new + content[first:],
                    content[:first] + content[second:],
                    content[:second] + content[first:],
                    content[second:] + content[:first],
                    content[:first],
                    content[:first] + b"\xff\xff\xff\x7f" + content[first + 4 :],
                    content[:first] + bytes([content[first] ^ 1]) + content[first + 1 :],
                )
            )
        )
    return content


@st.composite
def changed_json(draw: st.DrawFn, document: Any) -> Any:
    """A document with one to three values replaced, removed, renamed, added or moved elsewhere."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        other, name = places[draw(st.integers(0, len(places) - 1))]
        kind = draw(st.sampled_from(("replace", "remove", "rename", "add", "move", "nest")))
        if kind == "replace":
            holder[key] = draw(value)
        elif kind == "remove":
            del holder[key]
        elif kind == "rename" and isinstance(holder, dict):
            holder[draw(text)] = holder.pop(key)
        elif kind == "add" and isinstance(holder, dict):
            holder[draw(text)] = draw(value)
        elif kind == "move":
            holder[key] = copy.deepcopy(other[name])
        else:
            holder[key] = [holder[key]]
        if not document:
            return document
    return document


def _places(document: Any) -> Any:
    """Every (container, key) of a document."""
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], dict | list) and holder[key]:
                waiting.append(holder[key])
