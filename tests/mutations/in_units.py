"""Mistakes in units: which records are used, what a ledger charges, and who keeps a unit's records together."""

from tests.mutations.mutation import Mutation

_GROUPS = ("tests/data/test_units.py",)
_ENGINE = ("tests/algorithm/influence/test_influence_units.py",)
_LEDGER = ("tests/ledger/test_ledger_units.py",)
_FITS = ("tests/estimators/test_unit_fits.py", "-k", "refuse or says_so or ledger")

IN_UNITS = (
    Mutation(
        "units: all records of a unit are encoded",
        "data/units.py",
        "kept = np.sort(order[place < most_records])",
        "kept = np.sort(order)",
        _GROUPS,
    ),
    Mutation(
        "units: records without a value are units of their own",
        "data/units.py",
        "    _, units = np.unique(codes, return_inverse=True)",
        "    codes = np.where(codes == MISSING, -2 - np.arange(len(codes)), codes)\n"
        "    _, units = np.unique(codes, return_inverse=True)",
        _GROUPS,
    ),
    Mutation(
        "units: the number of records is public",
        "data/encode.py",
        "units, count = groups.units, groups.number",
        "units, count = groups.units, len(groups.units)",
        _GROUPS,
    ),
    Mutation(
        "units: the engine uses all records of a unit",
        "algorithm/influence/sums.py",
        "most = declaration.most_records",
        "most = len(unit)",
        _ENGINE,
    ),
    Mutation(
        "units: a ledger of records charges units once",
        "ledger/budget.py",
        "return 1 if column is None else 2",
        "return 1",
        _LEDGER,
    ),
    Mutation(
        "units: a ledger of units charges records once",
        "ledger/budget.py",
        "    return most\n",
        "    return 1\n",
        _LEDGER,
    ),
    Mutation(
        "units: a ledger of units takes records under replace-one",
        "ledger/budget.py",
        "if relation is Relation.REPLACE_ONE and most != 1:",
        "if relation is None:",
        _LEDGER,
    ),
    Mutation(
        "units: groups cost as much as one record",
        "accounting/convert.py",
        "    return group_of_two(guarantee) if size == 2 else _group(guarantee, size)",
        "    return group_of_two(guarantee) if size == 2 else guarantee",
        _LEDGER,
    ),
    Mutation(
        "units: methods about records take a schema with units",
        "estimators/methods/base.py",
        "if situation.schema.unit_column is not None and not self.keeps_units:",
        "if situation.schema.unit_column is None and not self.keeps_units and not self.tasks:",
        _FITS,
    ),
    Mutation(
        "units: the spec does not name the unit",
        "estimators/methods/bounded_influence.py",
        "unit=Unit.RECORD if situation.schema.unit is None else situation.schema.unit.stated",
        "unit=Unit.RECORD",
        _FITS,
    ),
)
