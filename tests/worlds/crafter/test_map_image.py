"""Images of whole maps mark the player, creatures, ores and what `near` placed."""

import numpy as np
import pytest

from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter import render
from envgen.worlds.crafter.engine import Engine
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter

CELL = render.CELL_SIZE
NEAR = {"table": True, "furnace": True, "water": True, "plant": "ripe", "cows": 3, "cave": True}


def start_env(level, seed):
    engine = Engine(1, [CrafterLevel.parse(level)], False, threads=1)
    engine.start([seed])
    env = engine.state.envs[0]
    return env, engine.state.entities[0][: env["num_entities"]]


def cell_image(image, x, y):
    x, y = int(x), int(y)
    return image[y * CELL : (y + 1) * CELL, x * CELL : (x + 1) * CELL]


def has_color(image, color):
    return (image == color).all(-1).any()


def test_ores_creatures_and_the_player_are_marked():
    env, entities = start_env(None, 3)
    image = Crafter().render_map(None, 3)
    assert image.shape == (64 * CELL, 64 * CELL, 3)
    for material, color in render.ORE_COLORS.items():
        cells = np.argwhere(env["ground"] == material)
        assert all(has_color(cell_image(image, x, y), color) for x, y in cells)
    for kind, color in render.CREATURE_COLORS.items():
        of_kind = entities[entities["kind"] == kind]
        assert len(of_kind)
        assert all(has_color(cell_image(image, entity["x"], entity["y"]), color) for entity in of_kind)
    top_left = cell_image(image, const.CENTER - 1, const.CENTER - 1)
    assert (top_left[0] == render.PLAYER_COLOR).all()
    assert not has_color(image, render.NEAR_COLOR)


@pytest.mark.parametrize("seed", range(4))
def test_what_near_placed_is_outlined(seed):
    env, entities = start_env({"near": NEAR}, seed)
    image = Crafter().render_map({"near": NEAR}, seed)
    cells = [*np.argwhere((env["ground"] == const.TABLE) | (env["ground"] == const.FURNACE))]
    cells += [(entity["x"], entity["y"]) for entity in entities if entity["kind"] == const.PLANT]
    cells += [(entity["x"], entity["y"]) for entity in entities if entity["kind"] == const.COW][-3:]
    assert len(cells) == 6
    assert all(has_color(cell_image(image, x, y), render.NEAR_COLOR) for x, y in cells)
    outlined = [(x, y) for x in range(64) for y in range(64) if has_color(cell_image(image, x, y), render.NEAR_COLOR)]
    distances = [abs(x - const.CENTER) + abs(y - const.CENTER) for x, y in outlined]
    assert max(distances) <= 16  # the far corners of the cave
    assert 7 <= len(outlined) <= 7 + 49


def test_legend_explains_every_marker():
    legend = Crafter().map_legend()
    names = [name for _, name in legend]
    assert names[:7] == ["start", "cow", "zombie", "skeleton", "coal", "iron", "diamond"]
    assert names[-1] == "placed by near"
    assert {icon.shape for icon, _ in legend} == {(render.LEGEND_CELL_SIZE, render.LEGEND_CELL_SIZE, 3)}
    page = np.asarray(Crafter().render_levels({"near": {"near": NEAR}}))
    assert has_color(page[64 * CELL + 20 :], render.NEAR_COLOR)


def test_cell_size_is_checked():
    assert Crafter().render_map(None, 0, cell_size=4).shape == (256, 256, 3)
    with pytest.raises(ValueError, match="cell_size must be from 4 to 64 pixels, not 2"):
        Crafter().render_map(None, 0, cell_size=2)
