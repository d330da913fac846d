"""Text that may stand on a terminal or in a log: one line, and nothing in it that a terminal would obey."""


def printable(text: str) -> str:
    r"""Spell out what does not print: line breaks, escape sequences, directional marks and lone surrogates.

    File and column names come from outside, and a terminal obeys what it is sent.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)
