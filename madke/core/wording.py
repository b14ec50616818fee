"""Numbers in sentences."""


def counted(number: int, one: str, many: str = "") -> str:
    """``1 question``, ``1,234 questions``. ``many`` is the plural; by default ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
