"""Maps for the tests of MiniGrid."""

from envgen.worlds.minigrid.maps import TOKEN


def room(*rows: str) -> list[str]:
    """Rows of cells with walls around them."""
    wall = "#" * (len(TOKEN.findall(rows[0])) + 2)
    return [wall, *(f"#{row}#" for row in rows), wall]
