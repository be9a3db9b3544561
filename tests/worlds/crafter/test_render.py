"""Rendering beyond the parity tests: every sprite on every material, and the random numbers that a frame uses."""

import numpy as np
import pytest
from crafter import engine, objects

from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter import render
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.reference import make_reference_env


@pytest.mark.parametrize("size", [(64, 64), (84, 84), (135, 90), (576, 576)])
def test_sprites_on_every_material_match_the_reference(size):
    unit = np.array([size[0] // 9, size[1] // 9])
    textures = make_reference_env(0)._textures
    atlas = render.make_atlas(size)
    for m, material in enumerate(const.MATERIALS[1:], 1):
        for k, sprite in enumerate(render.SPRITES):
            canvas = np.zeros((*unit, 3), np.uint8)
            engine._draw(canvas, np.zeros(2, int), textures.get(material, unit))
            if sprite != "none":
                engine._draw_alpha(canvas, np.zeros(2, int), textures.get(sprite, unit))
            assert np.array_equal(atlas.tiles[k, m], canvas.transpose(1, 0, 2).reshape(-1)), (material, sprite)


@pytest.mark.parametrize("size", [64, 84, 200])
def test_items_with_every_count_match_the_reference(size):
    env, reference = CrafterEnv(size=size), make_reference_env(0, size)
    env.reset(seed=0)
    reference.reset()
    for count in range(10):
        for item in reference._player.inventory:
            reference._player.inventory[item] = count
        env.engine.state.envs["inventory"][0] = count
        assert np.array_equal(env.engine.render(0, (size, size)), reference.render())


def test_arrows_and_plants_match_the_reference():
    env, reference = CrafterEnv({"cows": "none"}), make_reference_env(0)
    env.reset(seed=0)
    reference.reset()
    world = reference._world
    for entity in world.objects[1:]:
        world.remove(entity)
    entities, envs = env.engine.state.entities[0], env.engine.state.envs
    envs["entity_slots"][0] = 0
    envs["entity_slots"][0, const.CENTER, const.CENTER] = 1
    for k, step in enumerate(const.DIRECTION_OFFSETS):
        add_to_both(world, entities, envs, k + 1, objects.Arrow(world, (30 + k, 31), step), const.ARROW, facing=k)
    ripe = objects.Plant(world, (35, 31))
    ripe.grown = const.RIPE_AFTER + 1
    add_to_both(world, entities, envs, 5, ripe, const.PLANT, counter=const.RIPE_AFTER + 1)
    add_to_both(world, entities, envs, 6, objects.Plant(world, (31, 30)), const.PLANT, counter=const.RIPE_AFTER)
    envs["num_entities"][0] = 7
    assert np.array_equal(env.engine.render(0, (64, 64)), reference.render())


def add_to_both(world, entities, envs, row, entity, kind, **fields):
    world.add(entity)
    x, y = entity.pos
    entities[row]["x"], entities[row]["y"], entities[row]["kind"] = x, y, kind
    for name, value in fields.items():
        entities[row][name] = value
    envs["entity_slots"][0, x, y] = row + 1


def test_random_words_per_night_frame():
    assert render.words_per_night_frame((64, 64)) == 2 * 63 * 49
    assert render.words_per_night_frame((84, 90)) == 2 * 81 * 70


def test_smallest_and_odd_image_sizes():
    for size in ((18, 18), (19, 333)):
        env = CrafterEnv({"time_of_day": 200}, size=size)
        assert env.reset(seed=0)[0].shape == (size[1], size[0], 3)
