"""Mistakes in the cell gate: one cell that decides how others are read, or that stops what no rule lets stop."""

from tests.mutations.mutation import mutations

IN_CELLS = mutations(
    """
@@ cells: a list is one array | _column | data/test_one_cell.py -k not duckdb
- raw_columns.ObjectColumn.of(given)
+ _array_column(np.asarray(given))
@@ cells: Arrow guesses the type of a column of objects | _array_column | data/test_one_cell.py -k not duckdb
- raw_columns.ObjectColumn.of(values)
+ raw_columns.stored(raw_columns.arrow().array(values.tolist(), from_pandas=True))
@@ cells: a float beyond 2^53 names a whole number | cell_word | data/test_one_cell.py -k not duckdb
- whole = abs(cell) <= EXACT and cell == int(cell)
+ whole = math.isfinite(cell) and cell == int(cell)
@@ cells: large decimals are floats | stored | data/test_one_cell.py -k not duckdb
- types.is_floating(whole.type)
+ types.is_floating(whole.type) or types.is_decimal(whole.type)
@@ cells: true is 1 | cell_word | data/test_one_cell.py -k not duckdb
- return "true" if cell else "false"
+ return "1" if cell else "0"
@@ cells: equal cells of different types have one code | ObjectColumn.codes | data/test_one_cell.py -k not duckdb
- key = type(cell), cell
+ key = cell
@@ cells: one text that is no number makes all text missing
@@ | StoredColumn._parsed | data/test_one_cell.py look/test_sensitivity.py -k not duckdb
- readable = compute.if_else(compute.is_in(present, wrong), pa.scalar(None, pa.large_string()), present)
+ readable = pa.nulls(len(present), pa.large_string())
@@ cells: bytes that are no UTF-8 are spelled out in every cell | valid_text | data/test_one_cell.py -k not duckdb
- words = [level.decode("utf-8", "backslashreplace") for level in encoded.dictionary.to_pylist()]
+ words = [level.decode("ascii", "backslashreplace") + "?" for level in encoded.dictionary.to_pylist()]
@@ cells: floats are keys | keys | data/test_units.py -k no_key
- not column.tells_keys_apart
+ not column.tells_keys_apart and column.kind != "number"
@@ cells: a key that says nothing has a unit of its own | keys | data/test_units.py
- return np.maximum(column.codes(code), MISSING)
+ return column.codes(code)
@@ cells: a weight that is none stops | DeclaredWeight.shares | data/test_one_cell.py -k not duckdb
  values = as_numbers(column, self.column, tokens)
- values[np.isnan(values)] = self.mean
@@ cells: an undeclared word in an order stops | Ordered.measured | data/test_one_cell.py -k not duckdb
- return np.where(codes < 0, np.nan, codes.astype(np.float64))
+ return np.where(codes == -1, np.nan, codes.astype(np.float64))
@@ cells: types are looked at after the debit | declared | estimators/test_odd_cells.py -k types
- check_parts(schema, parts_of(schema.source(X)), apart=() if target is None else (target.name,))
+ pass
@@ custom models: a number that is not finite stays | finite | own_models/test_own_refusals.py -k no_model_gets
- return np.clip(np.nan_to_num(array, nan=0.0), -largest, largest)
+ return array
@@ custom models: a missing cell of a frame makes whole numbers real | _array | own_models/test_own_refusals.py -k frame
- return numpy_values(values.fill_null(False if column.kind == BOOLEAN else 0))
+ return np.nan_to_num(column.numbers(()))
@@ custom models: units by an array of all keys | _unit_codes | own_models/test_own_refusals.py -k digit
- codes = keys(unit, column, (), lambda word: known.setdefault(word, len(known)))
+ codes = keys(unit, column, (), lambda word: known.setdefault(str(float(word)), len(known)))
@@ networks: the number of rows where none is declared | _public_number | own_models/test_fit_network.py
  if records is None:
+     return check_examples(examples)
      raise InputError(
          "Under add-remove the number of examples is private. Declare records, a public number."
      )
"""
)
