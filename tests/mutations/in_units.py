"""Mistakes in units: which records are used, what a ledger charges, and who keeps a unit's records together."""

from tests.mutations.mutation import Mutation

_GROUPS = ("tests/data/test_units.py",)
_ENGINE = ("tests/mechanisms/regression/test_regression_units.py",)
_LEDGER = ("tests/ledger/test_ledger_units.py",)
_FITS = ("tests/estimators/test_unit_fits.py", "-k", "refuse or says_so or ledger")

IN_UNITS = (
    Mutation(
        "units: all records of a unit are encoded",
        "grouped",
        "kept = np.sort(order[place < most_records])",
        "kept = np.sort(order)",
        _GROUPS,
    ),
    Mutation(
        "units: records without a value are units of their own",
        "grouped",
        "_, units = np.unique(codes, return_inverse=True)",
        """\
codes = np.where(codes == MISSING, -2 - np.arange(len(codes)), codes)
_, units = np.unique(codes, return_inverse=True)
""",
        _GROUPS,
    ),
    Mutation(
        "units: the number of records is public",
        "encode",
        "units, count = groups.units, groups.number",
        "units, count = groups.units, len(groups.units)",
        _GROUPS,
    ),
    Mutation(
        "units: the engine uses all records of a unit",
        "UnitRows.__init__",
        "most = declaration.most_records",
        "most = len(unit)",
        _ENGINE,
    ),
    Mutation(
        "units: a ledger of records charges units once",
        "_group_size",
        "return 1 if column is None else 2",
        "return 1",
        _LEDGER,
    ),
    Mutation(
        "units: a ledger of units charges records once",
        "_group_size",
        "return most",
        "return 1",
        _LEDGER,
    ),
    Mutation(
        "units: a ledger of units takes records under replace-one",
        "_group_size",
        """\
if relation is Relation.REPLACE_ONE and most != 1:
    raise InputError(
        f"{wanted}, got one about records under replace-one, which says nothing about units that have different "
        "numbers of records; declare the unit in the schema, or fit under add-remove."
    )
""",
        """\
if relation is None:
    raise InputError(
        f"{wanted}, got one about records under replace-one, which says nothing about units that have different "
        "numbers of records; declare the unit in the schema, or fit under add-remove."
    )
""",
        _LEDGER,
    ),
    Mutation(
        "units: groups cost as much as one record",
        "group_of",
        "return group_of_two(guarantee) if size == 2 else _group(guarantee, size)",
        "return group_of_two(guarantee) if size == 2 else guarantee",
        _LEDGER,
    ),
    Mutation(
        "units: methods about records take a schema with units",
        "Method.why_not",
        """\
if problem.schema.unit_column is not None and not self.keeps_units:
    return (
        "does not keep the records of a unit together, as bounded-influence does for linear, robust, "
        "logistic (also with several classes) and count regression"
    )
""",
        """\
if problem.schema.unit_column is None and not self.keeps_units and not self.tasks:
    return (
        "does not keep the records of a unit together, as bounded-influence does for linear, robust, "
        "logistic (also with several classes) and count regression"
    )
""",
        _FITS,
    ),
    Mutation(
        "units: the spec does not name the unit",
        "_part",
        """\
NoisedSums(
        query=_QUERIES[word]
        + ("" if one.name == word else f", round {one.name.split()[1]}")
        + (_IN_BOUNDS if one.bound is None else ""),
        records=problem.records,
        rounds=1,
        sampling=Batch(Scheme.FULL),
        contribution=contribution,
        replacement=replaced,
        # The engine's noise is a hair more than its multiplier times the sensitivity, and that hair covers rounding.
        noise_multiplier=ConstantSchedule(one.multiplier * moved * math.sqrt(HAIR) / contribution),
        unit=Unit.RECORD if problem.schema.unit is None else problem.schema.unit.stated,
        options=(("numbers", one.numbers),),
    )
""",
        """\
NoisedSums(
        query=_QUERIES[word]
        + ("" if one.name == word else f", round {one.name.split()[1]}")
        + (_IN_BOUNDS if one.bound is None else ""),
        records=problem.records,
        rounds=1,
        sampling=Batch(Scheme.FULL),
        contribution=contribution,
        replacement=replaced,
        # The engine's noise is a hair more than its multiplier times the sensitivity, and that hair covers rounding.
        noise_multiplier=ConstantSchedule(one.multiplier * moved * math.sqrt(HAIR) / contribution),
        unit=Unit.RECORD,
        options=(("numbers", one.numbers),),
    )
""",
        _FITS,
    ),
    Mutation(
        "units: blanks around a name divide a unit over buckets",
        "Spread.places",
        "keys(self.column, table.columns[self.column], self.tokens, self._code)",
        "table.columns[self.column].codes(self._code)",
        ("tests/engines/test_engines_agree.py", "-k", "no_bucket"),
    ),
)
