"""README, docs and messages are plain: short sentences, and no phrase that readers stumbled over."""

from collections.abc import Callable, Iterator

import pytest

from tests.contract import prose

MEAN, NINETY_FIFTH = 18.0, 32.0
# A page or a group with fewer sentences has no distribution to speak of.
FEWEST = 12


def short(group: list[str]) -> bool:
    mean, high = prose.figures(group)
    return mean < MEAN and high < NINETY_FIFTH


def test_sentences_of_every_page_are_short():
    found = {
        str(path.relative_to(prose.ROOT)): prose.sentences(path.read_text(encoding="utf-8")) for path in prose.PAGES
    }
    assert len(found) > 40
    assert short([sentence for page in found.values() for sentence in page])
    assert [name for name, page in found.items() if len(page) >= FEWEST and not short(page)] == []


def test_sentences_of_messages_are_short():
    texts = [message.text for message in prose.messages()]
    assert len(texts) > 500
    assert short([sentence for text in texts for sentence in prose.sentences(text)])


def test_no_page_has_a_phrase_that_readers_stumbled_over():
    found = {
        str(path.relative_to(prose.ROOT)): prose.stumbling(path.read_text(encoding="utf-8")) for path in prose.PAGES
    }
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


@pytest.mark.parametrize(
    "texts",
    [prose.literals, prose.messages, prose.templates, prose.docstrings, prose.comments],
    ids=["literals", "messages", "templates", "docstrings", "comments"],
)
def test_no_text_of_the_package_has_one(texts: Callable[[], Iterator[prose.Message]]):
    spoken = list(texts())
    assert spoken
    assert (
        sorted({f"{message.place}: {phrase}" for message in spoken for phrase in prose.stumbling(message.text)}) == []
    )


@pytest.mark.parametrize(
    "text", ["whoever runs it", "got another; refused", "intervals told", "Leave it away.", "steps of one's own"]
)
def test_a_stumbling_phrase_is_found(text):
    assert prose.stumbling(text)


def test_code_counts_as_a_word_and_tables_do_not_count():
    page = "# Title\n\nOne `a b c` two. Three four five.\n\n| a b c d |\n\n- Six seven eight.\n\n```\nnot this\n```\n"
    assert [len(sentence.split()) for sentence in prose.sentences(page)] == [3, 3, 3]
