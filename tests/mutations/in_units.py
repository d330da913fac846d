"""Mistakes in units and weights: which records count, what a ledger charges, who keeps a unit's records together."""

from tests.mutations.mutation import mutations

IN_UNITS = mutations(
    """
@@ units: all records of a unit are encoded | grouped | data/test_units.py
- kept = np.sort(order[place < most_records])
+ kept = np.sort(order)
@@ units: records without a value are units of their own | grouped | data/test_units.py
+ codes = np.where(codes == MISSING, -2 - np.arange(len(codes)), codes)
  _, units = np.unique(codes, return_inverse=True)
@@ units: the number of records is public | encode | data/test_units.py
- table.rows if groups is None else groups.number
+ table.rows if groups is None else len(groups.units)
@@ units: the engine uses all records of a unit | UnitRows.__init__ | mechanisms/regression/test_regression_units.py
- most = declaration.most_records
+ most = len(unit)
@@ units: a ledger of records charges units once | _group_size | ledger/test_ledger_units.py
- return 1 if column is None else 2
+ return 1
@@ units: a ledger of units charges records once | _group_size | ledger/test_ledger_units.py
- return most
+ return 1
@@ units: a ledger of units takes records under replace-one | _group_size | ledger/test_ledger_units.py
- relation is Relation.REPLACE_ONE and most != 1
+ relation is None
@@ units: groups cost as much as one record | group_of | ledger/test_ledger_units.py
- size == 1
+ size != 2
@@ units: methods about records take a schema with units
@@ | Method.why_not | estimators/test_unit_fits.py -k refuse or says_so or ledger
- problem.schema.unit_column is not None and not self.keeps_units
+ problem.schema.unit_column is None and (not self.keeps_units) and (not self.name)
@@ units: the spec does not name the unit | full_sums | estimators/test_unit_fits.py -k refuse or says_so or ledger
- Unit.RECORD if schema.unit is None else schema.unit.stated
+ Unit.RECORD
@@ units: blanks around a name divide a unit | UnitSpread.places | engines/test_engines_agree.py -k no_bucket
- keys(self.column, table.columns[self.column], self.tokens, self._code)
+ table.columns[self.column].codes(self._code)
@@ weights: not cut to their bounds
@@ | DeclaredWeight.shares | estimators/test_survey_weights.py -k replay or bounds or written
- return np.clip(values, self.low, self.high) / self.high
+ return values / self.high
@@ weights: not divided by the largest
@@ | DeclaredWeight.shares | estimators/test_survey_weights.py -k replay or bounds or written
- return np.clip(values, self.low, self.high) / self.high
+ return np.clip(values, self.low, self.high)
@@ weights: instead of the share of a unit's record | UnitRows.__init__ | mechanisms/regression/test_regression_units.py
- self.masses = self.masses * weights[order]
+ self.masses = weights[order]
"""
)
