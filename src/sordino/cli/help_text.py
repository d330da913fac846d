"""What stands below the options of every subcommand: examples to copy, and the exit codes of the contract."""

EXIT_CODES = (
    "Exit codes: 0 done; 1 internal failure; 2 bad input, in one line on stderr; 3 refused by the ledger; 130 stopped "
    "by Ctrl-C."
)

_WIDEST = 70


def epilog(*examples: str) -> str:
    """Examples as they are typed, and the exit codes; a backspace keeps the lines from being joined."""
    title = "Example:" if len(examples) == 1 else "Examples:"
    lines = "\n".join(f"  {line}" for example in examples for line in _folded(example))
    return f"\b\n{title}\n{lines}\n\n{EXIT_CODES}"


def _folded(example: str) -> list[str]:
    """A command over several lines where it is long, so that it can be copied as it stands."""
    program, *options = example.split(" --")
    lines = [program]
    for option in options:
        if len(lines[-1]) + len(option) > _WIDEST:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" --{option}"
    return lines
