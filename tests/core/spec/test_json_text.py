"""Files and text that are not one sane JSON value are refused in one line, never with a traceback."""

from pathlib import Path

import pytest

from sordino import InputError, Spec, read_spec
from sordino.core.spec import document as json_text

EXAMPLE = Path(__file__).parents[3] / "examples" / "specs" / "golden-poisson.json"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("{", "line 1 column 2"),
        ("[]", "the spec to be a JSON object"),
        ("null", "the spec to be a JSON object"),
        ('{"delta": NaN}', "finite, got NaN"),
        ('{"delta": -Infinity}', "finite, got -Infinity"),
        ('{"delta": 1e999}', "delta to be a finite number"),
        ('{"delta": 0.1, "delta": 0.2}', "delta again"),
        ('{"a\\nb": 1, "a\\nb": 2}', "again"),
        ('{"delta": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"delta": ' + "9" * 50 + "}", "delta has 167 bits. Integers must be at most 2^63"),
        ("[" * 100_000 + "]" * 100_000, "nested more than 32 deep"),
        ("[" * 40 + "]" * 40, "nested more than 32 deep"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested more than 32 deep"),
    ],
)
def test_bad_text_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as refusal:
        Spec.from_json(text)
    assert said in str(refusal.value)
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("value", [object(), {1: 2}, {"delta": {1, 2}}, {"delta": 1j}, {"delta": b"x"}])
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"JSON value|text keys"):
        Spec.from_dict(value)
    loop: dict[str, object] = {}
    loop["algorithm"] = loop
    with pytest.raises(InputError, match="deep"):
        Spec.from_dict(loop)


def test_a_file_is_read(tmp_path: Path) -> None:
    expected = Spec.from_json(EXAMPLE.read_text(encoding="utf-8"))
    assert read_spec(EXAMPLE) == read_spec(str(EXAMPLE)) == expected
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.read_bytes())
    assert read_spec(marked) == expected


def test_an_unreadable_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"delta": "\xe9"}')
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    for name, said in [
        ("missing.json", "No such file"),
        ("", "directory"),
        ("latin.json", "UTF-8"),
        ("broken.json", "JSON"),
        ("null\0.json", "null character"),
        ("new\nline.json", "No such file"),
    ]:
        with pytest.raises(InputError, match=said) as refusal:
            read_spec(tmp_path / name)
        assert str(refusal.value).isprintable()


def test_a_file_that_is_too_big_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "LARGEST_FILE", 100)
    big = tmp_path / "big.json"
    big.write_bytes(b" " * 101)
    with pytest.raises(InputError, match="larger than 100 bytes"):
        read_spec(big)
    big.write_bytes(b" " * 100)
    with pytest.raises(InputError, match="JSON"):
        read_spec(big)
