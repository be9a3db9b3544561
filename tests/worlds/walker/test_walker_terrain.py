"""The walker's levels and the terrain that they generate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.designers.ued import mutate
from envgen.worlds.level_space import random_level, setting_values
from envgen.worlds.walker import terrain
from envgen.worlds.walker.held_out import HELD_OUT_LEVELS, POET_LEVELS, SUITES, extremely_challenging
from envgen.worlds.walker.level import WalkerLevel
from envgen.worlds.walker.terrain import END_X, LENGTH, STEP, generate_terrain
from envgen.worlds.world import LevelError

pytest.importorskip("Box2D")
SPACE = setting_values(WalkerLevel)


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pit_gap_low": 3}, "pit_gap_low 3 is above pit_gap_high 0; raise pit_gap_high or lower pit_gap_low"),
        ({"stump_height_low": 2, "stump_height_high": 1.5}, "stump_height_low 2 is above stump_height_high 1.5"),
        ({"roughness": 10.5}, "roughness: Input should be less than or equal to 10"),
        ({"stair_steps": 0}, "stair_steps: Input should be greater than or equal to 1"),
        ({"hardcore": True, "roughness": 2}, "hardcore has a terrain of its own; leave out roughness, or hardcore"),
        ({"pit_gap": 3}, "did you mean 'pit_gap_"),
    ],
)
def test_contradictory_levels_are_refused_in_a_sentence(settings, message):
    with pytest.raises(LevelError) as error:
        WalkerLevel.parse(settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_draws_of_single_settings_are_levels():
    generator = np.random.default_rng(0)
    levels = [random_level(WalkerLevel, SPACE, 0.3, generator) for _ in range(200)]
    assert not any(level.hardcore for level in levels)
    assert {level.obstacle_kinds for level in levels} >= {("pits",), ("pits", "stumps", "stairs")}
    for level in levels[:50]:
        mutate(level, SPACE, 3, generator)
    assert WalkerLevel.parse_sampled({"pit_gap_low": 4.0}) == WalkerLevel(pit_gap_high=4)
    assert WalkerLevel.parse_sampled({"hardcore": True}) == WalkerLevel()


def test_constants_are_gymnasiums():
    from gymnasium.envs.box2d import bipedal_walker as gymnasium_walker

    ours = terrain.SCALE, STEP, LENGTH, terrain.HEIGHT, terrain.START_COLUMNS, terrain.MAX_GRASS_COLUMNS
    names = "SCALE", "TERRAIN_STEP", "TERRAIN_LENGTH", "TERRAIN_HEIGHT", "TERRAIN_STARTPAD", "TERRAIN_GRASS"
    assert ours == tuple(getattr(gymnasium_walker, name) for name in names)


def test_ground_without_obstacles_is_gymnasiums():
    from envgen.worlds.walker.physics import WalkerPhysics

    for seed in range(40):
        physics, own = WalkerPhysics(WalkerLevel()), rng(seed)
        physics.begin(rng(seed))
        generated = generate_terrain(WalkerLevel(), own)
        assert list(generated.xs) == physics.terrain_x
        assert list(generated.ys) == physics.terrain_y
        rough = generate_terrain(WalkerLevel(roughness=4.0), rng(seed))
        assert np.ptp(rough.ys) > np.ptp(generated.ys)
        assert not np.ptp(generate_terrain(WalkerLevel(roughness=0.0), rng(seed)).ys)


@given(st.integers(0, 10_000), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_terrains_are_as_their_levels_say(seed, keep_prob):
    level = random_level(WalkerLevel, SPACE, keep_prob, np.random.default_rng(seed))
    generated = generate_terrain(level, rng(seed))
    assert len(generated.xs) == len(generated.ys) == LENGTH
    assert np.isfinite(generated.ys).all()
    assert (np.diff(generated.xs) > 0).all()
    assert {obstacle.kind for obstacle in generated.obstacles} <= set(level.obstacle_kinds)
    ends = [obstacle.end for obstacle in generated.obstacles]
    assert ends == sorted(ends)
    for obstacle in generated.obstacles:
        low, high = level.size_range(obstacle.kind)
        assert low - 1e-9 <= obstacle.size <= max(high, terrain.MIN_HEIGHT) + 1e-9
        if obstacle.kind == "stairs":
            assert 1 <= len(obstacle.polygons) <= level.stair_steps


def test_a_pit_is_as_wide_as_the_level_says():
    generated = generate_terrain(WalkerLevel(roughness=0.0, pit_gap_low=2.5, pit_gap_high=2.5), rng(0))
    for pit in generated.obstacles:
        assert pit.end - pit.start == pytest.approx(2.5 * STEP)
        deep = [x for x, y in zip(generated.xs, generated.ys, strict=True) if pit.start <= x <= pit.end and y < 2]
        assert deep or pit.end > END_X


def test_obstacles_of_the_hardcore_terrain_are_recognized():
    from envgen.worlds.walker.physics import WalkerPhysics

    kinds = {"pits": set(), "stumps": set(), "stairs": set()}
    physics = WalkerPhysics(WalkerLevel(hardcore=True))
    for seed in range(12):
        physics.begin(rng(seed))
        for obstacle in physics.obstacles:
            kinds[obstacle.kind].add(round(obstacle.size, 3))
    assert kinds == {"pits": {2.0, 3.0}, "stumps": {1.0, 2.0}, "stairs": {1.0}}


def test_held_out_levels():
    levels = {**HELD_OUT_LEVELS, **POET_LEVELS}
    assert {name for suite in SUITES.values() for name in suite} == set(levels)
    assert all(WalkerLevel.parse(level).to_overrides() == level for level in levels.values())
    challenging = extremely_challenging(20)
    assert challenging == extremely_challenging(20)
    assert all(2.4 <= level.stump_height_high <= 3 and level.pit_gap_high >= 6 for level in challenging)
