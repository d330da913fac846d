"""The frame every item stands in: tables, figures, the page, the folder, the registry, the command."""

import json
from pathlib import Path

import pytest

import papers
from papers.framework.figure import Figure
from papers.framework.item import (
    NOT_VALID,
    Beside,
    Improved,
    Lower,
    NotProved,
    NotValid,
    Options,
    Outcome,
    Table,
    Upper,
    Verdict,
    VerdictKind,
    every_item,
    item,
    item_named,
    unregister,
)
from papers.framework.writing import readme, run_item, write_index
from sordino.cli import main
from sordino.core.validate import InputError, SordinoError

QUICK = Options(quick=True, data_dir=None, seed=0)
VERDICT = Verdict(VerdictKind.SAME, "The numbers agree.")


def drawing(canvas) -> None:
    axes = canvas.add_subplot()
    axes.plot([1, 2, 3], [1, 4, 9], label="squares")
    axes.set(xlabel="side", ylabel="area")
    axes.legend()


@pytest.fixture
def toy():
    """An item of our own, forgotten afterwards."""
    runs = []

    @item(name="toy-item", paper="ye2022differentially", reproduces="Figure 0")
    def experiment(options: Options) -> Outcome:
        runs.append(options)
        table = Table("squares", ("x", "bound"), ((1, Upper(1.00001)), (2, NotValid(0.5))), "A row is a number.")
        beside = (Beside("peak", 38.0, Lower(40.0), "at 3"),)
        return Outcome((table,), (Figure("squares", drawing),), VERDICT, ("A note.",), (("n", len(runs)),), beside)

    yield experiment
    unregister("toy-item")


def test_an_item_is_named_after_its_paper_and_stands_in_that_folder():
    folders = {path.name for path in Path(papers.__path__[0]).iterdir() if (path / "__init__.py").is_file()}
    homes = {one.name: one.run.__module__.split(".")[1] for one in every_item() if one.paper is not None}
    assert set(homes.values()) == folders - {"framework", "grid"}
    assert all(name.replace("-", "_").startswith(home) for name, home in homes.items())


def test_without_a_checkout_the_command_says_where_the_papers_are(monkeypatch, capsys):
    monkeypatch.setattr("sordino.cli.demo.papers_folder", lambda: None)
    assert main(["reproduce", "--list"]) == 2
    assert "source tree" in capsys.readouterr().err


def test_every_item_says_what_it_reproduces():
    for one in every_item():
        assert one.source
        assert one.run.__doc__


def test_cells_are_rounded_in_their_direction_and_never_lose_their_label():
    table = Table("t", ("a", "b", "c", "d"), ((Upper(1.00001), Lower(1.99999), NotValid(0.5), None),))
    assert table.to_markdown().splitlines()[-1] == f"| 1.001 | 1.999 | 0.5 ({NOT_VALID}) | - |"
    assert table.to_csv().splitlines()[-1] == f"1.00001,1.99999,0.5 ({NOT_VALID}),"
    gap = Table("t", ("a",), ((NotProved(0.5),),))
    assert gap.to_markdown().splitlines()[-1] == "| 0.5 (NOT PROVED) |"
    assert gap.to_csv().splitlines()[-1] == "0.5 (NOT PROVED)"


def test_a_bar_in_a_cell_does_not_break_the_table():
    assert "|x\\| <= 1" in Table("t", ("a",), (("|x| <= 1",),)).to_markdown().replace("\\|x", "|x")


def test_a_row_of_another_length_is_refused():
    with pytest.raises(InputError, match="2 cells"):
        Table("t", ("a", "b"), ((1,),))


def test_a_verdict_says_why():
    with pytest.raises(InputError, match="say why"):
        Verdict(VerdictKind.SAME, " ")


def test_a_page_begins_with_whole_sentences_of_the_verdict_and_goes_on_with_the_rest():
    long = " ".join(["word"] * 30)
    verdict = Verdict(VerdictKind.SAME, f"First. A {long}. Last {long}. End.")
    assert verdict.short == f"First. A {long}."
    assert verdict.more == f"Last {long}. End."
    assert not Verdict(VerdictKind.SAME, "One sentence.").more


def test_two_tables_of_one_name_are_refused():
    table = Table("t", ("a",), ((1,),))
    with pytest.raises(InputError, match="names of their own"):
        Outcome((table, table), (), VERDICT)


def test_a_figure_is_the_same_bytes_every_time_and_leaves_matplotlib_as_it_was():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    (first, words), second = Figure("f", drawing).render(), Figure("f", drawing).render()
    assert (first, words) == second
    assert words == "Chart of area against side. Lines and marks: squares."
    assert set(first) == {"f.svg", "f.png"}
    assert first["f.png"].startswith(b"\x89PNG")
    assert b"<dc:date>" not in first["f.svg"]
    assert dict(mpl.rcParams) == before


def test_a_missing_matplotlib_says_what_to_install(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"sordino\[reproduce\]"):
        run_item("toy-item", QUICK, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_holds_tables_figures_and_a_page_that_begins_with_the_verdict(toy, tmp_path):
    run_item("toy-item", QUICK, tmp_path)
    folder = tmp_path / "toy-item"
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "squares.csv",
        "squares.md",
        "squares.svg",
        "squares.png",
    }
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page.split("\n\n")[1] == "**Verdict: same.** The numbers agree."
    assert "Ye & Shokri 2022, Figure 0" in page
    assert "sordino reproduce toy-item --quick" in page
    assert "| peak | 38 | 40 | at 3 |" in page
    assert f"0.5 ({NOT_VALID})" in page
    assert str(tmp_path) not in page


def test_running_again_replaces_the_folder_and_leaves_nothing_else(toy, tmp_path):
    run_item("toy-item", QUICK, tmp_path)
    (tmp_path / "toy-item" / "stale.csv").write_text("old", encoding="utf-8")
    run_item("toy-item", QUICK, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"toy-item", "made-on.json"}
    assert not (tmp_path / "toy-item" / "stale.csv").exists()


def test_a_folder_of_somebody_else_is_not_replaced(toy, tmp_path):
    (tmp_path / "toy-item").mkdir()
    (tmp_path / "toy-item" / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="something else"):
        run_item("toy-item", QUICK, tmp_path)
    assert (tmp_path / "toy-item" / "thesis.tex").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", [".notes", ".notes.md", "thesis.tex", ".git"])
def test_what_a_person_put_into_a_folder_of_ours_is_not_lost(name, toy, tmp_path):
    run_item("toy-item", QUICK, tmp_path)
    own = tmp_path / "toy-item" / name
    own.mkdir() if name == ".git" else own.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="would be lost"):
        run_item("toy-item", QUICK, tmp_path)
    assert own.exists()


def test_a_failure_while_writing_leaves_the_old_folder(toy, tmp_path, monkeypatch):
    run_item("toy-item", QUICK, tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "toy-item").iterdir()}

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sordino.core.atomic_write._flushed", broken)
    with pytest.raises(InputError, match="No space left"):
        run_item("toy-item", QUICK, tmp_path)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (tmp_path / "toy-item").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"toy-item", "made-on.json"}


def test_two_items_of_one_name_are_refused(toy):
    def other(options: Options) -> Outcome:
        raise NotImplementedError

    other.__module__ = "elsewhere"
    with pytest.raises(SordinoError, match="unique"):
        item(name="toy-item", paper=None, reproduces="Figure 1")(other)


def test_an_unknown_name_is_refused_with_the_closest(capsys, tmp_path):
    assert main(["reproduce", "ye-shokri-dynamic", "--out", str(tmp_path)]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "ye-shokri-dynamics" in answer.err
    assert len(answer.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--all", "--list"], ["which-theorem-wins", "--all"]])
def test_exactly_one_of_names_all_and_list(arguments, capsys):
    assert main(["reproduce", *arguments]) == 2
    assert "--list" in capsys.readouterr().err


def test_the_list_names_every_item(capsys):
    assert main(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(one.name in shown for one in every_item())
    assert main(["reproduce", "--list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["items"]] == [one.name for one in every_item()]


def test_the_command_runs_a_named_item_and_answers_in_json(toy, capsys, tmp_path):
    assert main(["reproduce", "toy-item", "--quick", "--json", "--out", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["items"][0]["verdict"] == "same"
    assert answer["items"][0]["figures"] == ["squares"]
    assert (tmp_path / "toy-item" / "README.md").is_file()
    index = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| [toy-item](toy-item/README.md) | Ye & Shokri 2022, Figure 0 | **same**: The numbers agree. |" in index


def test_results_are_written_and_checked_beside_the_papers_and_quick_ones_are_not(toy, capsys, tmp_path, monkeypatch):
    checkout = tmp_path / "checkout" / "papers"
    monkeypatch.setattr("sordino.cli.demo.papers_folder", lambda: checkout)
    monkeypatch.syspath_prepend(str(checkout.parent))
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "toy-item", "--quick"]) == 0
    assert (tmp_path / "results" / "toy-item" / "README.md").is_file()
    assert not checkout.exists()
    assert main(["reproduce", "toy-item", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("seconds\n")[-1])["items"][0]["folder"] == str(
        checkout / "toy-item"
    )
    assert {path.name for path in checkout.iterdir()} == {"README.md", "gallery.md", "made-on.json", "toy-item"}
    changed = checkout / "toy-item" / "squares.csv"
    changed.write_text("x\n")
    assert main(["reproduce", "toy-item", "--check"]) == 1
    assert "squares.csv" in capsys.readouterr().out


def test_an_items_folder_lies_beside_its_code():
    folders = {one.name: one.folder.as_posix() for one in every_item()}
    assert folders["heller-fetaya-fig1"] == "heller_fetaya/heller-fetaya-fig1"
    assert folders["which-theorem-wins"] == "grid/which-theorem-wins"
    root = Path(papers.__path__[0])
    assert all((root / folder / "README.md").is_file() for folder in folders.values())
    kept = {path.parent.relative_to(root).as_posix() for path in root.glob("*/*/README.md")}
    assert kept == set(folders.values())


def test_the_index_leaves_somebody_elses_page_alone(tmp_path):
    (tmp_path / "README.md").write_text("my own page", encoding="utf-8")
    with pytest.raises(InputError, match="another page"):
        write_index(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "my own page"


def test_an_item_that_needs_data_says_which(capsys, tmp_path):
    @item(name="toy-data", paper=None, reproduces="nothing", needs=("mnist.npz",))
    def hungry(options: Options) -> Outcome:
        raise NotImplementedError

    try:
        assert item_named("toy-data").needs == ("mnist.npz",)
        assert main(["reproduce", "toy-data", "--out", str(tmp_path)]) == 2
        assert "mnist.npz" in capsys.readouterr().err
    finally:
        unregister("toy-data")


def test_a_refutation_names_its_counterexample_and_a_failure_what_was_tried():
    because = "The numbers disagree."
    for kind, field in ((VerdictKind.REFUTED, "counterexample"), (VerdictKind.NOT_REPRODUCED, "tried")):
        with pytest.raises(InputError, match=field):
            Verdict(kind, because)
        assert Verdict(kind, because, **{field: "two points"}).evidence.endswith("two points")
        with pytest.raises(InputError, match=field):
            Verdict(VerdictKind.SAME, because, **{field: "two points"})


def test_an_improvement_stands_apart_from_the_verdict_and_never_has_the_papers_name(tmp_path):
    """Natural gradients under the name of the paper's algorithm would pass for a reproduction."""

    def registered(by: str):
        @item(name="toy-better", paper="vinaroz2022differentially", reproduces="Table 0")
        def experiment(options: Options) -> Outcome:
            verdict = Verdict(VerdictKind.NOT_REPRODUCED, "It comes out larger.", tried="ten splits")
            return Outcome((), (), verdict, improved=(Improved(by, "Its error is half.", "algorithm"),))

    try:
        registered("natural gradients")
        run_item("toy-better", QUICK, tmp_path)
        page = (tmp_path / "toy-better" / "README.md").read_text(encoding="utf-8").split("\n\n")
        assert page[1:4] == [
            "**Verdict: not reproduced.** It comes out larger.",
            "What was tried: ten splits",
            "*Improved by another algorithm, natural gradients:* Its error is half.",
        ]
        for taken in ("DP-SEP", "dp-sep"):
            registered(taken)
            with pytest.raises(SordinoError, match="name of its own"):
                run_item("toy-better", QUICK, tmp_path)
    finally:
        unregister("toy-better")


def test_a_number_computed_here_is_not_called_the_papers():
    for computed in (Upper(1.0), NotValid(1.0), NotProved(1.0)):
        with pytest.raises(InputError, match="formula="):
            Beside("epsilon", computed, Upper(2.0))
    table = Outcome((), (), VERDICT, beside=(Beside("epsilon", None, Upper(2.0), formula=Upper(1.0)),))
    shown = readme(every_item()[0], QUICK, table, {})
    assert "| quantity | paper | the paper's formula, computed here | ours | note |" in shown
    assert "| epsilon | - | 1 | 2 |  |" in shown


def test_a_quick_run_without_data_reads_slices_with_the_sets_shapes(tmp_path):
    """A reader that is broken breaks the quick run too."""
    seen = []

    @item(name="toy-reader", paper=None, reproduces="nothing", reads=("power", "mnist"), sliced=True)
    def reading(options: Options) -> Outcome:
        seen.append(None if options.data_dir is None else sorted(path.name for path in options.data_dir.iterdir()))
        return Outcome((), (), VERDICT)

    try:
        reading.outcome(QUICK)
        reading.outcome(Options(quick=False, data_dir=None, seed=0))
        assert seen == [["mnist.npz", "power.parquet", "splits"], None]
        assert "--data-dir" not in readme(reading, QUICK, Outcome((), (), VERDICT), {})
        given = Options(quick=False, data_dir=tmp_path, seed=0)
        assert "toy-reader --data-dir DIR" in readme(reading, given, Outcome((), (), VERDICT), {})
        # One command for all items leaves the same page for an item that reads no data.
        assert "--data-dir" not in readme(item_named("heller-fetaya-fig1"), given, Outcome((), (), VERDICT), {})
    finally:
        unregister("toy-reader")


def test_items_that_use_data_say_so():
    readers = {one.name for one in every_item() if one.reads or one.needs}
    assert {"heller-fetaya-mnist", "ye-shokri-logistic", "ye-shokri-normalisation"} <= readers
