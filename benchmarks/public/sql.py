"""Parts of queries in SQL for DuckDB."""


def hopping_starts(size: int, advance: int) -> str:
    """Return the starts of the windows of a record, in microseconds, a row each. Size and advance are too."""
    return f"epoch_us(ts) // {advance} * {advance} - unnest(range(0, {size}, {advance}))"
