"""Levels have the promised effects, invalid levels are rejected, and placed objects give no reward."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.settings import list_options
from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter.engine import Engine
from envgen.worlds.crafter.env import CrafterEnv, CrafterVectorEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.level import ORIGINAL_PARAMS, CrafterLevel
from envgen.worlds.crafter.level_stats import compute_level_stats
from envgen.worlds.world import LevelError

OPTIONS = ["none", "rare", "original", "common", "very common"]
SEEDS = range(24)


def test_default_level_is_the_original():
    assert CrafterLevel().to_params() == ORIGINAL_PARAMS


MEASURED = {
    "trees": "tree", "water": "water", "coal": "coal", "iron": "iron", "diamonds": "diamond", "lava": "lava",
    "tunnels": "path", "cows": "cow", "zombies": "zombie", "skeletons": "skeleton",
}  # fmt: skip


@pytest.mark.parametrize("setting", MEASURED)
def test_abundance_increases_counts(setting):
    counts = []
    for option in OPTIONS:
        stats = compute_level_stats({setting: option}, SEEDS)
        counts.append({**stats.cells, **stats.creatures}[MEASURED[setting]])
    assert all(more > 1.2 * less for less, more in pairwise(counts)), counts
    assert counts[0] == 0 or setting == "tunnels"  # caves are paths too
    original = compute_level_stats(None, SEEDS)
    assert counts[2] == {**original.cells, **original.creatures}[MEASURED[setting]]


def test_biomes_have_their_materials():
    natural = compute_level_stats(None, SEEDS).cells
    grassland = compute_level_stats({"biome": "grassland"}, SEEDS).cells
    mountain = compute_level_stats({"biome": "mountain"}, SEEDS).cells
    beach = compute_level_stats({"biome": "beach"}, SEEDS).cells
    assert grassland["stone"] == grassland["path"] == 0
    assert grassland["grass"] > 1.3 * natural["grass"]
    assert mountain["stone"] > 1.8 * natural["stone"]
    assert mountain["iron"] > 1.8 * natural["iron"]
    assert beach["sand"] > 3 * natural["sand"]
    assert beach["water"] > 1.3 * natural["water"]


@pytest.mark.parametrize("biome", ["natural", "grassland", "mountain", "beach"])
@pytest.mark.parametrize("water", OPTIONS)
def test_every_level_has_water_unless_water_is_none(biome, water):
    presence = compute_level_stats({"biome": biome, "water": water}, SEEDS).presence["water"]
    assert presence == (0 if water == "none" else 1)


def test_mountains_with_rare_water_have_a_pond():
    assert compute_level_stats({"biome": "mountain", "water": "rare"}, range(200)).presence["water"] == 1


@pytest.mark.parametrize(
    ("near", "name", "count", "max_distance"),
    [
        ({"table": True}, "table", 1, 6), ({"furnace": True}, "furnace", 1, 6), ({"water": True}, "water", None, 6),
        ({"plant": "sapling"}, "plant", 1, 6), ({"plant": "ripe"}, "plant", 1, 6), ({"cows": 4}, "cow", None, 6),
        ({"cave": True}, "path", None, 6), ({"cave": True}, "stone", None, 7.01), ({"tree": True}, "tree", None, 6),
        ({"ore": "coal"}, "coal", None, 6), ({"ore": "iron"}, "iron", None, 6),
        ({"ore": "diamond"}, "diamond", None, 6),
        ({"creature": "zombie"}, "zombie", None, 7.5), ({"creature": "skeleton"}, "skeleton", None, 7.5),
    ],
)  # fmt: skip
def test_near_places_objects_near_the_start(near, name, count, max_distance):
    stats = compute_level_stats({"near": near}, SEEDS)
    assert stats.presence[name] == 1
    assert stats.nearest_distances[name] <= max_distance
    assert stats.nearest_distances[name] < (compute_level_stats(None, SEEDS).nearest_distances[name] or 99)
    if count is not None:
        assert {**stats.cells, **stats.creatures}[name] == count


MANY_OBJECTS = {"table": True, "furnace": True, "tree": True, "ore": "iron", "plant": "ripe", "water": True, "cows": 4}
# The seeds below 200 with which the tree, the ore or the plant would take the only cell beside table and furnace if it
# were allowed to, and a hash of the maps of all others.
WITHOUT_CHOICE = {
    "natural": ([10, 170, 180, 192], "db6bb9f569f8bd67"),
    "mountain": ([63, 64, 108, 148], "66822aefbf2b59d1"),
}


@pytest.mark.parametrize("near", [{"table": True, "furnace": True}, MANY_OBJECTS])
@pytest.mark.parametrize("biome", ["natural", "mountain"])
def test_a_cell_is_beside_both_table_and_furnace(biome, near):
    engine = Engine(200, [CrafterLevel.parse({"biome": biome, "near": near})], False, threads=1)
    engine.start(range(200))
    for env, entities in zip(engine.state.envs, engine.state.entities, strict=True):
        ground = env["ground"].copy()
        for plant in entities[: env["num_entities"]]:
            if plant["kind"] == const.PLANT:
                ground[plant["x"], plant["y"]] = const.OUTSIDE
        (table,), (furnace,) = (np.argwhere(ground == material) for material in (const.TABLE, const.FURNACE))
        beside_both = [
            cell
            for cell in np.argwhere(np.isin(ground, (const.GRASS, const.SAND, const.PATH)))
            if max(abs(cell - table).max(), abs(cell - furnace).max()) == 1
        ]
        assert beside_both, (table, furnace)


@pytest.mark.parametrize("biome", WITHOUT_CHOICE)
def test_objects_near_the_start_move_only_from_the_last_cell_beside_table_and_furnace(biome):
    """All other maps, and the random streams after them, are those of before."""
    engine = Engine(200, [CrafterLevel.parse({"biome": biome, "near": MANY_OBJECTS})], False, threads=1)
    engine.start(range(200))
    moved, expected = WITHOUT_CHOICE[biome]
    others, digest = np.delete(engine.state.envs, moved), hashlib.sha256()
    for name in ("ground", "entity_slots", "rng"):
        digest.update(others[name].tobytes())
    assert digest.hexdigest()[:16] == expected


def test_what_a_level_grants_counts_as_done():
    level = CrafterLevel.parse({
        "inventory": {"wood": 1, "stone_pickaxe": 1}, "near": {"table": True, "plant": "ripe", "tree": True},
    })  # fmt: skip
    assert set(level.done_skills) == {"collect_wood", "make_stone_pickaxe", "place_table", "place_plant"}
    assert CrafterLevel.parse({**level.model_dump(), "done": []}).done_skills == ()
    more = CrafterLevel.parse({**level.model_dump(), "done": ["Collect Drink", "granted", "collect_drink"]})
    assert more.done == ("granted", "collect_drink")
    assert set(more.done_skills) == {*level.done_skills, "collect_drink"}
    with pytest.raises(LevelError, match="did you mean 'collect_drink'"):
        CrafterLevel.parse({"done": ["colect_drink"]})


@pytest.mark.parametrize(
    ("done", "reward"), [(("granted",), 1), ((), 1), (("make_wood_pickaxe",), 0), (("granted", "make_wood_pickaxe"), 0)]
)
def test_done_skills_give_no_reward(done, reward):
    level = {"near": {"table": True}, "inventory": {"wood": 9}, "done": done, "zombies": "none"}
    env = CrafterEnv(level, observation="symbols+unlocked")
    obs, _ = env.reset(seed=3)
    assert obs[-len(const.SKILLS) :].sum() == len(env.level.done_skills)
    for _ in range(100):
        obs, rewarded, _, _, info = env.step(int(expert_actions(env.engine)[0]))
        if info["achievements"]["make_wood_pickaxe"]:
            assert rewarded == pytest.approx(reward, abs=0.3)  # health may change, too
            return
    raise AssertionError("the expert never made a pickaxe")


def test_near_cows_adds_cows():
    counts = [compute_level_stats({"near": {"cows": n}}, SEEDS).creatures["cow"] for n in range(5)]
    assert np.diff(counts) == pytest.approx([1, 1, 1, 1], abs=0.6)


@pytest.mark.parametrize("setting", ["cows", "zombies", "skeletons"])
def test_densities_persist_during_the_episode(setting):
    counts = []
    for option in OPTIONS:
        envs = CrafterVectorEnv(12, {setting: option, "biome": "natural", "time_of_day": 30}, "symbols")
        envs.reset(seed=0)
        num_living = np.zeros(12)
        for _ in range(600):
            envs.engine.state.envs["inventory"][:, :4] = 9  # players do not die
            envs.step(np.zeros(12, int))
            envs.engine.state.envs["prev_health"] = 9
        kind = const.ENTITIES.index(setting.removesuffix("s"))
        for i, (entities, count) in enumerate(
            zip(*envs.engine.state[1:], envs.engine.state.envs["num_entities"], strict=True)
        ):
            num_living[i] = (entities[:count]["kind"] == kind).sum()
        counts.append(num_living.mean())
    assert counts[0] == 0
    assert all(more > less for less, more in pairwise(counts)), counts


def test_near_cows_do_not_despawn_without_other_cows():
    env = CrafterEnv({"cows": "none", "near": {"cows": 4}, "zombies": "none", "skeletons": "none"})
    env.reset(seed=1)
    for _ in range(100):
        env.step(0)
    assert (env.engine.state.entities[0][: env.engine.state.envs["num_entities"][0]]["kind"] == const.COW).sum() == 4


def test_near_cows_do_not_destroy_the_near_plant():
    env = CrafterEnv({"near": {"plant": "ripe", "cows": 4}, "cows": "none", "zombies": "none"})
    num_alive = 0
    for seed in range(60):
        env.reset(seed=seed)
        env.step(0)
        num_alive += int(
            (env.engine.state.entities[0][: env.engine.state.envs["num_entities"][0]]["kind"] == const.PLANT).any()
        )
    assert num_alive == 60


def test_near_and_inventory_give_no_reward():
    near = {"table": True, "furnace": True, "water": True, "plant": "ripe", "cows": 4, "cave": True}
    inventory = {name: 1 for name in (*const.MATERIAL_ITEMS, *const.TOOLS)}
    env = CrafterEnv({"near": near, "inventory": inventory, "vitals": {"health": 3, "food": 2}, "zombies": "none"})
    for seed in range(5):
        _, info = env.reset(seed=seed)
        assert not any(info["achievements"].values())
        _, reward, _, _, info = env.step(0)
        assert reward == 0
        assert not any(info["achievements"].values())


def test_inventory_vitals_time_and_length_apply():
    level = CrafterLevel(
        inventory={"sapling": 9, "iron_sword": 1}, vitals={"health": 4, "food": 3, "drink": 2, "energy": 1},
        time_of_day=210, length=5,
    )  # fmt: skip
    env = CrafterEnv(level, observation="symbols")
    obs, info = env.reset(seed=0)
    expected = {"health": 4, "food": 3, "drink": 2, "energy": 1, "sapling": 9, "iron_sword": 1}
    assert {item: count for item, count in info["inventory"].items() if count} == expected
    assert obs[-1] < 30  # dark
    assert [env.step(0)[3] for _ in range(5)] == [False] * 4 + [True]


def test_near_ripe_plant_can_be_eaten():
    env = CrafterEnv({"near": {"plant": "ripe"}, "cows": "none", "zombies": "none"})
    env.reset(seed=1)
    for _ in range(50):
        *_, info = env.step(int(expert_actions(env.engine)[0]))
        if info["achievements"]["eat_plant"]:
            return
    raise AssertionError("the expert never ate the ripe plant")


@pytest.mark.parametrize(("growth", "steps"), [(0, None), (1, 301), (2, 151), (4, 76), (8, 38), (16, 19), (32, 10)])
def test_growth_sets_how_fast_plants_ripen(growth, steps):
    env = CrafterEnv({"near": {"plant": "sapling"}, "growth": growth, "cows": "none", "zombies": "none"})
    env.reset(seed=1)
    state = env.engine.state
    is_plant = state.entities[0]["kind"] == const.PLANT
    for k in range(1, 303):
        env.step(0)
        if state.entities[0]["counter"][is_plant] > const.RIPE_AFTER:
            assert k == steps
            return
    assert steps is None


def test_plants_stop_growing_at_the_largest_age_that_a_state_can_hold():
    env = CrafterEnv({"near": {"plant": "sapling"}, "growth": 32, "cows": "none", "zombies": "none"})
    env.reset(seed=1)
    entities = env.engine.state.entities[0]
    row = int(np.flatnonzero(entities["kind"] == const.PLANT)[0])
    entities["counter"][row] = const.MAX_PLANT_AGE - 40
    for age in (const.MAX_PLANT_AGE - 8, const.MAX_PLANT_AGE, const.MAX_PLANT_AGE):
        env.step(0)
        assert entities["counter"][row] == age


def test_respawn_sets_the_spawn_rate():
    def count_zombies(respawn):
        env = CrafterEnv({"zombies": "very common", "respawn": respawn, "time_of_day": 180, "vitals": {"energy": 9}})
        total = 0
        for seed in range(6):
            env.reset(seed=seed)
            for _ in range(31):
                if any(env.step(0)[2:4]):
                    break
            entities = env.engine.state.entities[0][: env.engine.state.envs["num_entities"][0]]
            total += int((entities["kind"] == const.ZOMBIE).sum())
        return total

    counts = [count_zombies(option) for option in OPTIONS]
    assert counts == sorted(counts)
    assert counts[0] < counts[2] < counts[4]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"tress": "rare"}, "setting 'tress' is not one of .*did you mean 'trees'"),
        ({"trees": "plenty"}, "trees: 'plenty' is not one of none, rare, original, common, very common"),
        ({"biome": "grasslands"}, "biome: 'grasslands' is not one of .*did you mean 'grassland'"),
        ({"inventory": {"wod": 1}}, "inventory: Inventory: setting 'wod' is not one of .*did you mean 'wood'"),
        ({"inventory": {"wood": 10}}, "inventory.wood: .*less than or equal to 9 .*10"),
        ({"inventory": {"iron_sword": 2}}, "inventory.iron_sword: .*less than or equal to 1"),
        ({"inventory": {"wood": "many"}}, "inventory.wood: .*'many'"),
        ({"vitals": {"health": 0}}, "vitals.health: .*greater than or equal to 1"),
        ({"length": 0}, "length: .*greater than or equal to 1"),
        ({"length": 10_001}, "length: .*less than or equal to 10000"),
        ({"time_of_day": 300}, "time_of_day: .*less than 300"),
        ({"near": {"cows": 5}}, "near.cows: .*less than or equal to 4"),
        ("{not json", "Invalid JSON"),
        ("[1, 2]", "should be an object"),
    ],
)
def test_invalid_level_raises(data, message):
    with pytest.raises(LevelError, match=f"(?s){message}"):
        CrafterLevel.parse(data)


def test_options_ignore_case_and_underscores():
    assert CrafterLevel.parse({"trees": "Very_Common", "biome": "BEACH"}) == CrafterLevel(
        trees="very common", biome="beach"
    )


def test_levels_are_hashable_and_frozen():
    level = CrafterLevel(trees="rare")
    assert level == CrafterLevel.model_validate_json(level.model_dump_json())
    assert hash(level) == hash(CrafterLevel(trees="rare"))
    with pytest.raises(ValueError, match="frozen"):
        level.trees = "none"


def levels() -> st.SearchStrategy[CrafterLevel]:
    def build(model):
        fields = {}
        for name, field in model.model_fields.items():
            kind = field.annotation
            limits = {type(m).__name__: m for m in field.metadata}
            if kind is bool:
                fields[name] = st.booleans()
            elif kind is int:
                low = limits["Ge"].ge
                high = limits["Le"].le if "Le" in limits else limits["Lt"].lt - 1
                fields[name] = st.integers(low, high)
            elif hasattr(kind, "model_fields"):
                fields[name] = build(kind)
            elif options := list_options(kind):
                fields[name] = st.lists(st.sampled_from(options), max_size=4).map(tuple)
            else:
                fields[name] = st.sampled_from(kind.__args__)
        return st.builds(model, **fields)

    return build(CrafterLevel)


@given(level=levels(), seed=st.integers(0, 2**31 - 2), actions=st.lists(st.integers(0, 16), max_size=40))
@settings(max_examples=60)
def test_any_valid_level_can_be_played(level, seed, actions):
    env = CrafterEnv(level, observation="symbols")
    obs, info = env.reset(seed=seed)
    assert env.observation_space.contains(obs)
    assert info["player_pos"].tolist() == [const.CENTER, const.CENTER]
    for action in actions:
        obs, _, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(obs)
        entities = env.engine.state.entities[0][: env.engine.state.envs["num_entities"][0]]
        assert len({(int(x), int(y)) for x, y in zip(entities["x"], entities["y"], strict=True)}) == len(entities)
        if terminated or truncated:
            env.reset()
    env.close()
