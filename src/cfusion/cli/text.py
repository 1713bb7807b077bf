"""Text for a terminal: control characters in file names are escaped."""

LONGEST = 600  # characters of a message


def shown(text: object) -> str:
    """One line with control characters as escapes (`\\x1b`); a long text loses its middle."""
    line = "".join(letter if letter.isprintable() else _escaped(letter) for letter in str(text))
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")
