"""Pictures beyond what parity shows step by step: every entity on every ground, and the cost of looking."""

import numpy as np
import pytest
from crafter import engine as theirs
from crafter import objects

from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter import render as ours
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.original import make_original


@pytest.mark.parametrize("size", [(64, 64), (84, 84), (135, 90), (576, 576)])
def test_every_sprite_on_every_ground_is_the_originals(size):
    unit = np.array([size[0] // 9, size[1] // 9])
    textures = make_original(0)._textures
    atlas = ours.make_atlas(size)
    for m, material in enumerate(const.MATERIALS[1:], 1):
        for k, sprite in enumerate(ours.SPRITES):
            canvas = np.zeros((*unit, 3), np.uint8)
            theirs._draw(canvas, np.zeros(2, int), textures.get(material, unit))
            if sprite != "none":
                theirs._draw_alpha(canvas, np.zeros(2, int), textures.get(sprite, unit))
            assert np.array_equal(atlas.tiles[k, m], canvas.transpose(1, 0, 2).reshape(-1)), (material, sprite)


@pytest.mark.parametrize("size", [64, 84, 200])
def test_every_item_with_every_count_is_the_originals(size):
    env, theirs_ = CrafterEnv(size=size), make_original(0, size)
    env.reset(seed=0)
    theirs_.reset()
    for count in range(10):
        for item in theirs_._player.inventory:
            theirs_._player.inventory[item] = count
        env.engine.state.envs["inventory"][0] = count
        assert np.array_equal(env.engine.render(0, (size, size)), theirs_.render())


def test_arrows_and_plants_in_every_state_are_drawn_as_the_original_draws_them():
    env, theirs_ = CrafterEnv({"cows": "none"}), make_original(0)
    env.reset(seed=0)
    theirs_.reset()
    world = theirs_._world
    for entity in world.objects[1:]:
        world.remove(entity)
    entities, envs = env.engine.state.entities[0], env.engine.state.envs
    envs["entity_slots"][0] = 0
    envs["entity_slots"][0, const.CENTER, const.CENTER] = 1
    for k, step in enumerate(const.DIRECTION_OFFSETS):
        place(world, entities, envs, k + 1, objects.Arrow(world, (30 + k, 31), step), const.ARROW, facing=k)
    ripe = objects.Plant(world, (35, 31))
    ripe.grown = const.RIPE_AFTER + 1
    place(world, entities, envs, 5, ripe, const.PLANT, counter=const.RIPE_AFTER + 1)
    place(world, entities, envs, 6, objects.Plant(world, (31, 30)), const.PLANT, counter=const.RIPE_AFTER)
    envs["num_entities"][0] = 7
    assert np.array_equal(env.engine.render(0, (64, 64)), theirs_.render())


def place(world, entities, envs, row, entity, kind, **fields):
    world.add(entity)
    x, y = entity.pos
    entities[row]["x"], entities[row]["y"], entities[row]["kind"] = x, y, kind
    for name, value in fields.items():
        entities[row][name] = value
    envs["entity_slots"][0, x, y] = row + 1


def test_the_night_of_a_size_costs_what_the_original_draws():
    assert ours.words_per_night_frame((64, 64)) == 2 * 63 * 49
    assert ours.words_per_night_frame((84, 90)) == 2 * 81 * 70


def test_the_smallest_and_an_odd_size_can_be_drawn():
    for size in ((18, 18), (19, 333)):
        env = CrafterEnv({"time_of_day": 200}, size=size)
        assert env.reset(seed=0)[0].shape == (size[1], size[0], 3)
