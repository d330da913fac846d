"""Mistakes in the cell gate: one cell that decides how others are read, or that stops what no rule lets stop."""

from tests.mutations.mutation import Mutation

_CELLS, _COLUMNS, _MEMORY = "data/cells.py", "data/raw_columns.py", "data/sources/in_memory.py"
_ONE_CELL = ("tests/data/test_one_cell.py", "-k", "not duckdb")
_OWN = ("tests/own_models/test_own_refusals.py", "tests/own_models/test_fit_network.py")
IN_CELLS = (
    Mutation(
        "cells: a list is one array",
        "_column",
        """\
if isinstance(given, Sequence) and not isinstance(given, str | bytes) and not _is_typed(given):
    return Objects.of(given)
""",
        """\
if isinstance(given, Sequence) and not isinstance(given, str | bytes) and not _is_typed(given):
    return _array_column(np.asarray(given))
""",
        _ONE_CELL,
    ),
    Mutation(
        "cells: Arrow guesses the type of a column of objects",
        "_array_column",
        """\
if kind in "OT":
    return Objects.of(values)
""",
        """\
if kind in "OT":
    return arrow_column(arrow().array(values.tolist(), from_pandas=True))
""",
        _ONE_CELL,
    ),
    Mutation(
        "cells: a float beyond 2^53 names a whole number",
        "word",
        "whole = abs(cell) <= EXACT and cell == int(cell)",
        "whole = math.isfinite(cell) and cell == int(cell)",
        _ONE_CELL,
    ),
    Mutation(
        "cells: large decimals are floats",
        "arrow_column",
        """\
if types.is_decimal(whole.type) and whole.type.scale == 0:
    if whole.type.precision > _DIGITS:
        return Texts(whole.cast(pa.large_string()), kind="number")
    whole = whole.cast(pa.int64())
""",
        """\
if types.is_decimal(whole.type) and whole.type.scale < 0:
    if whole.type.precision > _DIGITS:
        return Texts(whole.cast(pa.large_string()), kind="number")
    whole = whole.cast(pa.int64())
""",
        _ONE_CELL,
    ),
    Mutation(
        "cells: true is 1",
        "word",
        'return "true" if cell else "false"',
        'return "1" if cell else "0"',
        _ONE_CELL,
    ),
    Mutation(
        "cells: equal cells of different types have one code",
        "Objects.codes",
        "key = type(cell), cell",
        "key = cell",
        _ONE_CELL,
    ),
    Mutation(
        "cells: one text that is no number makes all text missing",
        "Texts.numbers",
        "readable = compute.if_else(compute.is_in(present, wrong), pa.scalar(None, pa.large_string()), present)",
        "readable = pa.nulls(len(present), pa.large_string())",
        (*_ONE_CELL, "tests/look/test_sensitivity.py"),
    ),
    Mutation(
        "cells: bytes that are no UTF-8 are spelled out in every cell",
        "valid_text",
        'words = [level.decode("utf-8", "backslashreplace") for level in encoded.dictionary.to_pylist()]',
        'words = [level.decode("ascii", "backslashreplace") + "?" for level in encoded.dictionary.to_pylist()]',
        _ONE_CELL,
    ),
    Mutation(
        "cells: floats are keys",
        "keys",
        'column.values.dtype.kind not in "iu"',
        'column.values.dtype.kind not in "fiub"',
        ("tests/data/test_units.py", "-k", "no_key"),
    ),
    Mutation(
        "cells: a key that says nothing has a unit of its own",
        "keys",
        "return np.maximum(column.codes(code), MISSING)",
        "return column.codes(code)",
        ("tests/data/test_units.py",),
    ),
    Mutation(
        "cells: a weight that is none stops",
        "DeclaredWeight.shares",
        """\
values = as_numbers(column, self.column, tokens)
values[np.isnan(values)] = self.mean
""",
        "values = as_numbers(column, self.column, tokens)",
        _ONE_CELL,
    ),
    Mutation(
        "cells: an undeclared word in an order stops",
        "Ordered.measured",
        "return np.where(codes < 0, np.nan, codes.astype(np.float64))",
        "return np.where(codes == -1, np.nan, codes.astype(np.float64))",
        _ONE_CELL,
    ),
    Mutation(
        "cells: types are looked at after the debit",
        "declared",
        """\
_check_types(found.schema, X, {} if target is None else {target.name: y})
return found
""",
        "return found",
        ("tests/estimators/test_odd_cells.py", "-k", "types"),
    ),
    Mutation(
        "custom models: a number that is not finite stays",
        "finite",
        "return np.clip(np.nan_to_num(array, nan=0.0), -largest, largest)",
        "return array",
        (_OWN[0], "-k", "no_model_gets"),
    ),
    Mutation(
        "custom models: a missing cell of a frame makes whole numbers real",
        "_array",
        "return values if missing is None else np.where(missing, values.dtype.type(0), values)",
        "return values if missing is None else np.where(missing, np.nan, values)",
        (_OWN[0], "-k", "frame"),
    ),
    Mutation(
        "custom models: units by an array of all keys",
        "_unit_codes",
        "codes = keys(unit, column, (), lambda word: known.setdefault(word, len(known)))",
        "codes = keys(unit, column, (), lambda word: known.setdefault(str(float(word)), len(known)))",
        (_OWN[0], "-k", "digit"),
    ),
    Mutation(
        "networks: the number of rows where none is declared",
        "_public_number",
        """\
if records is None:
    raise InputError(
        "Expected records, a public number, under add-remove, where the number of examples is private, got "
        "none; declare it."
    )
""",
        """\
if records is None:
    return check_examples(examples)
    raise InputError(
        "Expected records, a public number, under add-remove, where the number of examples is private, got "
        "none; declare it."
    )
""",
        (_OWN[1],),
    ),
)
