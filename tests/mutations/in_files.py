"""Mistakes in files of strangers, processes, reports and public refusals: what attacks found, as it was before."""

from tests.mutations.mutation import mutations

IN_FILES = mutations(
    """
@@ specs: a query or an address is the path of a file | FilePath.read | cli/test_audit.py
- '#' in found or '://' in found
+ False
@@ databases: a query reaches other files | connected | data/test_database_files.py
- ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access")
+ ("autoinstall_known_extensions", "autoload_known_extensions")
@@ processes: helpers import from the working folder | Helper.__init__ | engines/test_rows_in_files.py -k helpers
- os.environ | WORKERS_OWN | {"PYTHONPATH": found}
+ os.environ | WORKERS_OWN | {"PYTHONPATH": found, "PYTHONSAFEPATH": ""}
@@ Arrow: batches are believed | ArrowPart._batches | fuzz/test_tables.py -k checked_in_full
- _as_bytes(column).validate(full=True)
+ _as_bytes(column).validate()
@@ CSV: an encoding in which a cell changes the next lines | _is_encoding | data/test_csv.py -k declared
- not codecs.lookup(word).name.startswith(_STATEFUL)
+ codecs.lookup(word) is not None
@@ families: another header is a missing key | read_table | engines/test_sources_in_parts.py -k own
- set(kept).difference(part.names())
+ set()
@@ cells: words beyond 2^53 are read from floats | as_codes | data/test_one_cell.py -k cannot_tell_apart
- large is not None and not column.tells_keys_apart
+ False
@@ signatures: a broken one is no matter to a reader | read_release | report/test_dossier.py -k signature_is_broken
  broken = broken_signature(folder)
- if broken:
-     raise InputError(broken)
@@ signatures: a broken one is no matter to an audit | described | report/test_dossier.py -k signature_is_broken
- library.broken_signature(path)
+ ''
@@ signatures: a broken one is no matter to a report
@@ | Subject.discrepancies | report/test_dossier.py -k signature_is_broken
- ("The signature is not valid.", self.broken_signature)
+ ("The signature is not valid.", "")
@@ keys: a private file that others read | _document | ledger/test_signing.py
- read_bytes(place, _LARGEST_KEY_FILE, owner_only=True)
+ read_bytes(place, _LARGEST_KEY_FILE)
@@ ledger: members by their primary group | _group_of_one | ledger/test_access.py
- primary | set(entry.gr_mem)
+ set(entry.gr_mem)
@@ ledger: an entry of another run pays | Ledger.debit | engines/test_resume.py -k another_fit
- (entry.spec_text, entry.bound_text) in {(one.spec_text, one.bound_text) for one in pages}
+ True
@@ report: other bounds than those of the description | Subject.discrepancies | report/test_contradictions.py -k answers
- not known or not _agree(release.answers, answers)
+ not known
@@ report: another number of records | Subject.discrepancies | report/test_contradictions.py -k records
- stated_records - {schema.records}
+ set()
@@ report: another line about floating point | unplanned | report/test_contradictions.py -k floating
- floating_point_line(release.bound) != line
+ False
@@ report: an audit that found a mistake in the code | open_subject | report/test_contradictions.py -k code
- replay_verdict(source)
+ None
@@ fit: more noise than sums hold is seen in the run | fit | fuzz/test_tiny_budgets.py -k fit
- check_noise(*plan.lattice)
+ None
@@ networks: more noise than sums hold is seen in the run | check_room | fuzz/test_tiny_budgets.py -k network or custom
- sums_exponent(run.contribution, size, float(run.sum_noise.max()), run.records, _block(training, run))
+ None
@@ networks: what measure raises ends a paid run | measurements | own_models/test_fit_network.py -k measure
- {name: np.asarray(value).tolist() for name, value in dict(measure(given)).items()}
+ dict(measure(given))
@@ numbers: a range of no width | Number.contradictions | data/test_schema_check.py
- self.centre_and_scale[1] < SMALLEST_SCALE
+ self.centre_and_scale[1] <= 0.0
@@ audit of a release: no copy of a row | DrawnTables._trial | replay/test_planted.py -k equal
- records | {"a copy of another row": {name: cells[-1] for name, cells in rest.items()}}
+ records
"""
)
