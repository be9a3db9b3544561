"""Designers that choose the level of every episode: dr, plr, accel and sfl."""

import json
from collections import Counter

import numpy as np
import pytest
from pydantic import Field

from envgen.designers.buffer import NO_SEED, LevelEpisode, LevelOrigin
from envgen.designers.registry import build_designer
from envgen.designers.sampler import LevelArchiveSampler, LevelMeasurements
from envgen.designers.ued import SflSampler, mutate
from envgen.settings import flatten
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.level_space import setting_values
from envgen.worlds.minigrid.level import TASK_SETTINGS, MiniGridLevel
from envgen.worlds.walker.level import WalkerLevel
from envgen.worlds.world import Level, Skill


class DotsLevel(Level):
    rows: int = Field(default=1, ge=1, le=1000)
    """Rows of dots."""
    columns: int = Field(default=1, ge=1, le=1000)
    """Columns of dots."""
    color: bool = False
    """Whether the dots have colors."""


class OrchardLevel(Level):
    trees: int = Field(default=0, ge=0, le=1)
    """Trees."""
    fruit: bool = False
    """Whether they bear fruit."""

    @classmethod
    def parse_sampled(cls, settings):
        return cls.parse({name: value for name, value in settings.items() if name == "trees" or settings.get("trees")})


class FewDotsLevel(Level):
    rows: int = Field(default=1, ge=1, le=3)
    """Rows of dots."""


SKILLS = (Skill("count"),)
SETTINGS = {
    "dr": {},
    "plr": {"min_levels": 5, "buffer_size": 10},
    "accel": {"min_levels": 5, "buffer_size": 10, "num_edits": 1},
    "sfl": {"interval": 3, "num_candidates": 12, "buffer_size": 4},
}


def make_sampler(name: str, tmp_path, seed: int = 0, **settings) -> LevelArchiveSampler:
    designer = build_designer(name, tmp_path, settings=SETTINGS[name] | settings)
    return designer.make_sampler(DotsLevel, SKILLS, seed)


def measure(levels, episodes, max_steps, seed) -> LevelMeasurements:
    """Levels with more rows are solved more often: from never to always."""
    rates = np.array([(level.rows - 1) / 999 for level in levels])[:, None]
    return LevelMeasurements(np.round(100 * rates), np.full_like(rates, 100), episodes * len(levels))


def play(sampler: LevelArchiveSampler, updates: int, num_envs: int = 8) -> list:
    """Each episode takes one update; its score is given by its level."""
    played = []
    for _ in range(updates):
        sampler.refresh(measure)
        sampled = [sampler.sample() for _ in range(num_envs)]
        sampler.update([
            LevelEpisode(item.level_id, 1.0, np.array([k % 2]), item.level.rows / 1000, 0.5)
            for k, item in enumerate(sampled)
        ])  # fmt: skip
        played += sampled
    return played


@pytest.mark.parametrize("name", SETTINGS)
def test_restored_sampler_continues_exactly(tmp_path, name):
    sampler = make_sampler(name, tmp_path)
    play(sampler, 7)
    sampler.sample()  # in progress
    arrays, values = sampler.state()
    copy = make_sampler(name, tmp_path, seed=1)
    copy.load(arrays, json.loads(json.dumps(values)))
    assert play(copy, 5) == play(sampler, 5)
    assert copy.summary() == sampler.summary()


@pytest.mark.parametrize("name", ["dr", "plr"])
def test_levels_whose_episodes_a_new_phase_drops_are_forgotten(tmp_path, name):
    sampler = make_sampler(name, tmp_path)
    dropped = [sampler.sample() for _ in range(3)]
    sampler.begin_phase()
    assert sampler.state()[1]["pending"] == []  # or each phase would make the checkpoints larger
    new = sampler.sample()
    sampler.update([LevelEpisode(item.level_id, 1.0, np.array([1]), 0.5, 0.5) for item in (*dropped, new)])
    assert sampler.buffer.ids[: len(sampler.buffer)].tolist() == [new.level_id]


@pytest.mark.parametrize("name", SETTINGS)
def test_seed_determines_the_levels(tmp_path, name):
    first, second, other = (play(make_sampler(name, tmp_path, seed), 6) for seed in (0, 0, 1))
    assert first == second != other


def test_dr_plays_a_new_random_level_every_episode(tmp_path):
    played = play(make_sampler("dr", tmp_path, keep_prob=0.0), 10)
    assert len({item.level_id for item in played}) == 80
    assert len({item.level for item in played}) > 60
    assert all(item.learns for item in played)


def test_plr_learns_only_from_replayed_levels(tmp_path):
    sampler = make_sampler("plr", tmp_path, replay_prob=0.5)
    played = play(sampler, 40)
    seen, replayed = set(), []
    for item in played:
        assert item.learns == (item.level_id in seen)
        replayed.append(item.level_id in seen)
        seen.add(item.level_id)
    assert not any(replayed[:8])  # the archive has too few levels
    assert 0.4 < np.mean(replayed[8:]) < 0.6
    assert len(sampler.buffer) == 10
    counts = sampler.summary()["episodes"]
    assert counts == {"random": len(seen), "replay": sum(replayed)}


def test_a_replayed_level_is_no_longer_stale(tmp_path):
    sampler = make_sampler("plr", tmp_path, replay_prob=1.0)
    play(sampler, 10)
    level_id = sampler.sample().level_id
    row = sampler.buffer.row_of_id(level_id)
    assert row is not None
    assert sampler.buffer.last_sampled[row] == sampler.buffer.num_sampled
    others = [k for k in range(len(sampler.buffer.levels)) if k != row]
    assert (sampler.buffer.last_sampled[others] < sampler.buffer.num_sampled).all()


def test_plr_replays_levels_with_high_scores(tmp_path):
    played = play(make_sampler("plr", tmp_path, keep_prob=0.0), 60)
    rows = {learns: np.mean([item.level.rows for item in played if item.learns == learns]) for learns in (False, True)}
    assert rows[True] > rows[False] + 200


def test_first_version_of_plr_learns_from_new_levels(tmp_path):
    assert all(item.learns for item in play(make_sampler("plr", tmp_path, learn_from_new=True), 5))


def test_archive_smaller_than_min_levels_is_replayed_when_it_is_full(tmp_path):
    assert any(item.learns for item in play(make_sampler("plr", tmp_path, min_levels=50), 10))


@pytest.mark.parametrize("name", ["plr", "accel"])
def test_all_levels_of_a_small_world_are_replayed(tmp_path, name):
    """It has three levels, fewer than `min_levels`."""
    sampler = build_designer(name, tmp_path).make_sampler(FewDotsLevel, SKILLS, 0)
    played = play(sampler, 40)
    assert len(sampler.buffer) == 3
    assert any(item.learns for item in played[80:])
    restored = build_designer(name, tmp_path).make_sampler(FewDotsLevel, SKILLS, 1)
    restored.load(*sampler.state())
    assert play(restored, 5) == play(sampler, 5)


def test_accel_mutates_levels_of_the_archive(tmp_path):
    sampler = make_sampler("accel", tmp_path, replay_prob=0.3, mutation_prob=0.9, keep_prob=0.0)
    levels = {item.level_id: item.level for item in play(sampler, 40)}
    mutations = [
        (level, origin) for level, origin in zip(sampler.buffer.levels, sampler.buffer.origins, strict=True)
        if origin.kind == "mutation"
    ]  # fmt: skip
    assert mutations
    for level, origin in mutations:
        parent = levels[origin.parent]
        assert sum(getattr(level, name) != getattr(parent, name) for name in DotsLevel.model_fields) == 1
    counts = sampler.summary()["episodes"]
    assert counts["mutation"] > 3 * counts["random"]


def test_sfl_keeps_the_most_learnable_candidates(tmp_path):
    sampler = make_sampler("sfl", tmp_path, keep_prob=0.0, num_candidates=40)
    sampler.refresh(measure)
    kept = [level.rows for level in sampler.buffer.levels]
    assert len(kept) == 4
    assert all(abs(rows - 500) <= 120 for rows in kept)
    learnabilities = sampler.buffer.learnability()
    assert (np.diff(learnabilities) <= 0).all()
    rates = [(rows - 1) / 999 for rows in kept]
    np.testing.assert_allclose(learnabilities, [p * (1 - p) for p in rates], atol=0.01)


def test_sfl_selects_anew_every_interval_updates(tmp_path):
    sampler = make_sampler("sfl", tmp_path, keep_prob=0.0)
    calls = []

    def counting(levels, episodes, max_steps, seed):
        calls.append((sampler.num_updates, len(levels), episodes, max_steps, seed))
        return measure(levels, episodes, max_steps, seed)

    for _ in range(8):
        sampler.refresh(counting)
        sampler.refresh(counting)  # a phase begins
        sampler.update([])
    assert [call[0] for call in calls] == [0, 3, 6]
    assert len({call[4] for call in calls}) == 3
    assert sampler.ranking_steps == sum(call[1] * call[2] for call in calls)


def test_sfl_learns_from_selected_and_from_random_levels(tmp_path):
    sampler = make_sampler("sfl", tmp_path, keep_prob=0.0)
    assert isinstance(sampler, SflSampler)
    played = play(sampler, 3, num_envs=50)
    selected = sum(item.level in sampler.buffer.levels for item in played)
    assert 0.4 < selected / len(played) < 0.6
    assert all(item.learns for item in played)
    assert len(sampler.buffer) == 4
    assert sum(sampler.buffer.episodes[:4]) == selected


def test_the_config_has_replayed_maps_only_if_they_are_on(tmp_path):
    for name in ("plr", "accel"):
        assert "replay_maps" not in build_designer(name, tmp_path).config()  # as in runs of earlier versions
        assert build_designer(name, tmp_path, settings={"replay_maps": True}).config()["replay_maps"]


def test_levels_keep_the_seeds_of_their_maps(tmp_path):
    sampler = make_sampler("accel", tmp_path, replay_maps=True, replay_prob=0.5, mutation_prob=0.5)
    seeds = {}
    for _ in range(300):
        chosen = sampler.sample()
        assert seeds.setdefault(chosen.level_id, (chosen.level, chosen.seed)) == (chosen.level, chosen.seed)
        assert chosen.seed != NO_SEED
        sampler.update([LevelEpisode(chosen.level_id, 1.0, np.array([1]), 0.1 + chosen.level_id % 7, 0.5)])
    buffer = sampler.buffer
    mutations = [row for row, origin in enumerate(buffer.origins) if origin.kind == "mutation"]
    assert mutations
    for row in mutations:
        assert buffer.seeds[row] == seeds[buffer.origins[row].parent][1]
    randoms = [int(seed) for seed, origin in zip(buffer.seeds, buffer.origins, strict=False) if origin.kind == "random"]
    assert len(set(randoms)) == len(randoms) > 3
    assert all(entry["seed"] == seeds[entry["id"]][1] for entry in buffer.entries())


def test_a_level_has_an_entry_for_each_of_its_maps(tmp_path):
    sampler = make_sampler("plr", tmp_path, replay_maps=True)
    buffer, level, origin = sampler.buffer, DotsLevel(), LevelOrigin("plr", "random")
    for k, seed in enumerate((5, 6, 5, NO_SEED)):
        buffer.add(LevelEpisode(k, 1.0, np.array([1]), 0.5, 0.5), level, origin, seed)
    assert buffer.seeds[: len(buffer)].tolist() == [5, 6, NO_SEED]
    assert buffer.episodes[: len(buffer)].tolist() == [2, 1, 1]
    copy = make_sampler("plr", tmp_path, replay_maps=True)
    copy.load(*sampler.state())
    assert copy.buffer.row_of(level, 6) == 1


def test_results_of_removed_levels_are_ignored(tmp_path):
    sampler = make_sampler("plr", tmp_path)
    sampler.update([LevelEpisode(123, 1.0, np.array([1]), 0.5, 0.5)])
    assert len(sampler.buffer) == 0


def test_mutations_in_the_walker_change_the_terrain():
    space, rng, level = setting_values(WalkerLevel), np.random.default_rng(0), WalkerLevel()
    for _ in range(100):
        mutant = mutate(level, space, 1, rng)
        assert mutant != level
        level = mutant
    ranges, parent = dict.fromkeys(["pit_gap_low", "pit_gap_high"], (0.0, 5.0, 10.0)), WalkerLevel(pit_gap_high=5.0)
    assert all(mutate(parent, ranges, 2, rng) != parent for _ in range(100))  # 5 to 0 is the same range as 0 to 5


def test_mutations_change_only_settings_that_have_an_effect_in_the_level():
    space, rng = setting_values(OrchardLevel), np.random.default_rng(0)
    for level, expected in ((OrchardLevel(), {(1, False)}), (OrchardLevel(trees=1), {(1, True), (0, False)})):
        mutants = [mutate(level, space, 1, rng) for _ in range(20)]
        assert {(mutant.trees, mutant.fruit) for mutant in mutants} == expected


def test_mutations_in_the_walker_spend_no_edit_on_hardcore():
    space, rng, level = setting_values(WalkerLevel), np.random.default_rng(0), WalkerLevel()
    for _ in range(30):
        mutant = mutate(level, space, len(space) - 1, rng)  # edits all other settings
        assert not mutant.hardcore
        assert mutant.roughness != level.roughness
        assert mutant.stair_steps != level.stair_steps or not mutant.stair_height_high
        level = mutant


def test_mutations_in_minigrid_keep_only_settings_of_the_task():
    space, rng, level = setting_values(MiniGridLevel), np.random.default_rng(0), MiniGridLevel()
    for _ in range(200):
        mutant = mutate(level, space, 1, rng)
        assert mutant != level
        assert set(mutant.to_overrides()) <= {"task", "length", *TASK_SETTINGS.get(mutant.task, ("size",))}
        level = mutant
    counts = Counter(len(mutate(MiniGridLevel(), space, 3, rng).to_overrides()) for _ in range(100))
    assert counts[3] >= 95  # settings that had no effect before the task was changed are tried again


@pytest.mark.parametrize("world", [Crafter(), Heist()])
@pytest.mark.parametrize("num_edits", [1, 4])
def test_mutation_changes_some_settings_of_any_world(world, num_edits):
    space, rng, level = setting_values(world.Level), np.random.default_rng(0), world.Level()
    num_edits = min(num_edits, len(space))
    changed = Counter()
    for _ in range(30):
        mutant = mutate(level, space, num_edits, rng)
        before, after = flatten(level.model_dump()), flatten(mutant.model_dump())
        different = {name for name in before if before[name] != after[name]}
        assert len(different) == num_edits
        changed.update(different)
        level = mutant
    assert len(changed) > min(5, len(space) - 1)
