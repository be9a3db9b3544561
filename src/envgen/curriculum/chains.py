"""Train in chains of levels: each environment of a chain plays its current stage, and success decides which comes next.

`ChainVectorEnv` wraps the environments of a phase. It counts the episodes that end in the current stage of each chain.
When the skill succeeds in at least `advance_at` percent of the last `window` of them, the chain goes on to the next
stage; at `fall_back_at` percent or less, it returns to the stage before. Episodes that begin from then on play it.
Only episodes that began since the last change of the stage count, and none that continued a saved state. Episodes in
progress count as well if they are at least as long as those in the window on average: in worlds where success ends an
episode, those that end first would all be successes. The stages and these counts are part of the state.

Most steps of an episode come after the skill of the chain has succeeded, or when it no longer can. With `cutoff`,
episodes in all stages but the last are truncated after a multiple of the steps that success takes there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envgen.arrays import read_array, strip_prefix
from envgen.designers.designer import LevelChain
from envgen.worlds.world import Level, LevelVectorEnv, Skill, SupportsEnvState

from .wrapper import VectorEnvWrapper, add_final_infos, restart

NO_CHAIN = -1
MIN_CUTOFF = 64  # steps
MIN_SUCCESSES = 8  # in a stage before its episodes are cut off
CUTOFF_QUANTILE = 0.9  # of the steps until success
NO_SUCCESS = -1
PREFIX = "chains."


def start_level(entry: Level | LevelChain) -> Level:
    """The level itself, or the stage that a chain begins with."""
    return entry.levels[entry.start] if isinstance(entry, LevelChain) else entry


class ChainVectorEnv(VectorEnvWrapper, LevelVectorEnv):
    """The environments `envs`, which play levels and chains: environment i plays `entries[i % len(entries)]`.

    Equal chains share their stage. `levels` has the levels and all stages of the chains, and does not change.

    Args:
        envs: Made with any levels of the entries, and not reset yet.
        entries: Levels and chains.
        skills: The skills of the world.
    """

    def __init__(self, envs: LevelVectorEnv, entries: Sequence[Level | LevelChain], skills: Sequence[Skill]):
        super().__init__(envs)
        self.envs = envs
        distinct = list(dict.fromkeys(entries))
        self.chains = [entry for entry in distinct if isinstance(entry, LevelChain)]
        chain_ids: dict[Level | LevelChain, int] = {chain: c for c, chain in enumerate(self.chains)}
        env_entries = [entries[i % len(entries)] for i in range(self.num_envs)]
        self.env_chains = np.array(
            [chain_ids.get(e, NO_CHAIN) if isinstance(e, LevelChain) else NO_CHAIN for e in env_entries]
        )
        self.env_entry_ids = np.array([distinct.index(entry) for entry in env_entries])
        self.stages = np.array([chain.start for chain in self.chains], np.int64)
        self.counts = np.zeros(len(self.chains), np.int64)  # of episodes since the last change of the stage
        window = max((chain.window for chain in self.chains), default=1)
        self.successes = np.zeros((len(self.chains), window), np.bool_)  # of the last episodes, as a ring
        self.lengths = np.zeros((len(self.chains), window), np.int64)  # the same
        self.success_steps = np.zeros((len(self.chains), window), np.int64)  # of successful episodes, as a ring
        self.num_successes = np.zeros(len(self.chains), np.int64)  # since the last change of the stage
        self.first_success = np.full(self.num_envs, NO_SUCCESS, np.int64)  # steps of the episode until then
        self.skill_ids = [[s.name for s in skills].index(chain.skill) for chain in self.chains]
        self.restored = np.zeros(self.num_envs, np.bool_)  # whether the episode continued a saved state
        self.num_changes = np.zeros(len(self.chains), np.int64)  # of the stage of each chain
        self.env_changes = np.zeros(self.num_envs, np.int64)  # the number of changes when the episode began
        self._env_skills = np.array([self.skill_ids[c] if c != NO_CHAIN else 0 for c in self.env_chains])
        self._last_stages = np.array([len(self.chains[c].levels) - 1 if c != NO_CHAIN else 0 for c in self.env_chains])
        self._limits = np.full(len(self.chains), np.inf)  # steps of an episode; derived from the arrays above
        self._has_cutoff = any(chain.cutoff is not None for chain in self.chains)
        stage_levels = [
            (e, stage, level)
            for e, entry in enumerate(distinct)
            for stage, level in enumerate(entry.levels if isinstance(entry, LevelChain) else (entry,))
        ]
        self._levels = [level for _, _, level in stage_levels]
        self.level_sources = [distinct[e] for e, _, _ in stage_levels]  # the entry that each of `levels` belongs to
        self.level_stages = np.array([stage for _, stage, _ in stage_levels])
        self._env_entries = env_entries
        envs.set_levels(list(dict.fromkeys(self._levels)), sample_levels=True)  # so that their indices never change
        self._set_current_levels()
        # (entries, inner levels): the index in `levels` of each level that an environment of an entry can report
        self._level_indices = np.zeros((len(distinct), len(envs.levels)), np.int64)
        for k, level in enumerate(envs.levels):
            matches = [n for n, (_, _, other) in enumerate(stage_levels) if other == level]
            for e in range(len(distinct)):
                own_matches = [n for n in matches if stage_levels[n][0] == e]
                self._level_indices[e, k] = [*own_matches, *matches, 0][0]

    @property
    def levels(self) -> Sequence[Any]:
        return self._levels

    def stage_of(self, chain: LevelChain) -> int:
        """The current stage of a chain, from 0."""
        return int(self.stages[self.chains.index(chain)])

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        raise NotImplementedError("the levels of chains are set when their environments are made")

    def _set_current_levels(self) -> None:
        self.envs.set_levels([
            entry.levels[self.stages[c]] if isinstance(entry, LevelChain) else entry
            for entry, c in zip(self._env_entries, self.env_chains, strict=True)
        ])  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- episodes

    def reset(self, *, seed: Any = None, options: dict | None = None):
        obs, infos = self.envs.reset(seed=seed, options=options)
        mask = (options or {}).get("reset_mask")
        self._begin_episodes(slice(None) if mask is None else mask)
        return obs, self._translate(infos)

    def step(self, actions: Any):
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        infos = self._translate(infos)
        ended = terminated | truncated
        if "final_info" in infos:
            infos["final_info"] = self._translate(infos["final_info"])
        cut_off = np.zeros(self.num_envs, np.bool_)
        if self._has_cutoff:
            self._note_successes(infos, ended)
            cut_off = self._cut_off(infos, ended)
        if cut_off.any():
            add_final_infos(obs, infos, cut_off)
            truncated, ended = truncated | cut_off, ended | cut_off
        if ended.any():
            final_infos = infos.get("final_info", infos)
            self._count_episodes(np.flatnonzero(ended & self._in_stage(final_infos)), final_infos)
            self._begin_episodes(ended)
            if cut_off.any():
                infos["final_info"] |= {"cut_off": cut_off, "_cut_off": ended}
                restart(self.envs, cut_off, obs, infos, translate=self._translate)
            self._update_stages(infos)
        return obs, rewards, terminated, truncated, infos

    def _begin_episodes(self, envs: Any) -> None:
        self.restored[envs], self.first_success[envs] = False, NO_SUCCESS
        self.env_changes[envs] = self.num_changes[self.env_chains[envs]]  # unused without a chain

    def _in_stage(self, infos: Mapping[str, Any]) -> np.ndarray:
        """Whether each episode plays the current stage of its chain, and began since the last change of it."""
        c = self.env_chains
        in_stage = self.level_stages[infos["level"]] == self.stages[c]
        return in_stage & (self.env_changes == self.num_changes[c]) & (c != NO_CHAIN) & ~self.restored

    def _note_successes(self, infos: Mapping[str, Any], ended: np.ndarray) -> None:
        """Note the step at which each episode first succeeds at the skill of its chain."""
        for infos_now, envs in ((infos, ~ended), (infos.get("final_info", infos), ended)):
            ids = np.flatnonzero(envs & (self.env_chains != NO_CHAIN) & (self.first_success == NO_SUCCESS))
            if ids.size:
                ids = ids[infos_now["achievements"][ids, self._env_skills[ids]] > 0]
                self.first_success[ids] = infos_now["episode_length"][ids]

    def _cut_off(self, infos: Mapping[str, Any], ended: np.ndarray) -> np.ndarray:
        """The environments whose episodes end here, because they have had enough time to succeed."""
        expired = infos["episode_length"] >= self._limits[self.env_chains]  # a limit is that of the current stage
        is_last = self.level_stages[infos["level"]] == self._last_stages
        return expired & self._in_stage(infos) & ~is_last & ~ended

    def _update_limit(self, c: int) -> None:
        """Derive the steps after which the episodes of a chain are cut off from its recent successes."""
        chain, num_successes = self.chains[c], self.num_successes[c]
        self._limits[c] = np.inf
        if chain.cutoff is not None and num_successes >= MIN_SUCCESSES:
            steps = self.success_steps[c, : min(num_successes, chain.window)]
            self._limits[c] = max(MIN_CUTOFF, chain.cutoff * np.quantile(steps, CUTOFF_QUANTILE))

    def _count_episodes(self, env_ids: np.ndarray, infos: Mapping[str, Any]) -> None:
        """Count the episodes that ended in the current stage of their chain."""
        for i in env_ids:
            c = int(self.env_chains[i])
            row = self.counts[c] % self.chains[c].window
            self.successes[c, row] = infos["achievements"][i, self.skill_ids[c]] > 0
            self.lengths[c, row] = infos["episode_length"][i]
            self.counts[c] += 1
            if self.first_success[i] != NO_SUCCESS:
                self.success_steps[c, self.num_successes[c] % self.chains[c].window] = self.first_success[i]
                self.num_successes[c] += 1
                self._update_limit(c)

    def _update_stages(self, infos: Mapping[str, Any]) -> None:
        changed = False
        for c, chain in enumerate(self.chains):
            if self.counts[c] < chain.window:
                continue
            rate = self._success_rate(c, infos)
            change = 0
            if rate >= chain.advance_at and self.stages[c] + 1 < len(chain.levels):
                change = 1
            elif rate <= chain.fall_back_at and self.stages[c] > 0:
                change = -1
            if change:
                self.stages[c] += change
                self.counts[c] = self.num_successes[c] = 0
                self.num_changes[c] += 1
                self._update_limit(c)
                changed = True
        if changed:
            self._set_current_levels()

    def _success_rate(self, c: int, infos: Mapping[str, Any]) -> float:
        """The success rate in the current stage of a chain, in percent."""
        window = self.chains[c].window
        is_long = infos["episode_length"] >= self.lengths[c, :window].mean()
        counted = (self.env_chains == c) & self._in_stage(infos) & is_long
        in_progress = infos["achievements"][counted, self.skill_ids[c]] > 0
        return 100 * float(np.concatenate([self.successes[c, :window], in_progress]).mean())

    def _translate(self, infos: dict[str, Any], env_ids: np.ndarray | None = None) -> dict[str, Any]:
        """Infos in which `level` is an index into `levels`."""
        entries = self.env_entry_ids if env_ids is None else self.env_entry_ids[env_ids]
        return {**infos, "level": self._level_indices[entries, infos["level"]]}

    # ---------------------------------------------------------------------------------------------------------- state

    def get_state(self) -> dict[str, np.ndarray]:
        return {
            **{f"envs.{name}": array for name, array in self.envs.get_state().items()},
            PREFIX + "stages": self.stages.copy(),
            PREFIX + "counts": self.counts.copy(),
            PREFIX + "successes": self.successes.astype(np.uint8),
            PREFIX + "lengths": self.lengths.copy(),
            PREFIX + "restored": self.restored.astype(np.uint8),
            PREFIX + "success_steps": self.success_steps.copy(),
            PREFIX + "num_successes": self.num_successes.copy(),
            PREFIX + "first_success": self.first_success.copy(),
            PREFIX + "num_changes": self.num_changes.copy(),
            PREFIX + "env_changes": self.env_changes.copy(),
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> Any:
        shape = self.successes.shape
        stages, counts = (read_array(state, PREFIX + name, "i8", shape[:1]) for name in ("stages", "counts"))
        successes = read_array(state, PREFIX + "successes", "u1", shape)
        lengths = read_array(state, PREFIX + "lengths", "i8", shape)
        restored = read_array(state, PREFIX + "restored", "u1", (self.num_envs,))
        success_steps = read_array(state, PREFIX + "success_steps", "i8", shape)
        num_successes = read_array(state, PREFIX + "num_successes", "i8", shape[:1])
        first_success = read_array(state, PREFIX + "first_success", "i8", (self.num_envs,))
        num_changes = read_array(state, PREFIX + "num_changes", "i8", shape[:1])
        env_changes = read_array(state, PREFIX + "env_changes", "i8", (self.num_envs,))
        num_stages = np.array([len(chain.levels) for chain in self.chains])
        if (stages < 0).any() or (stages >= num_stages).any() or (counts < 0).any() or (num_successes < 0).any():
            raise ValueError("the state of the chains is damaged or was saved with other chains; use the same ones")
        obs = self.envs.set_state(strip_prefix("envs", state))
        self.stages, self.counts, self.successes = stages.copy(), counts.copy(), successes.astype(np.bool_)
        self.lengths, self.restored = lengths.copy(), restored.astype(np.bool_)
        self.success_steps, self.num_successes = success_steps.copy(), num_successes.copy()
        self.first_success = first_success.copy()
        self.num_changes, self.env_changes = num_changes.copy(), env_changes.copy()
        for c in range(len(self.chains)):
            self._update_limit(c)
        return obs

    # SupportsEnvState: states hold the inner indices of levels, which never change

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        return self._env_states().get_env_state(env_ids)

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, infos = self._env_states().set_env_state(env_ids, states, seeds)
        self.restored[env_ids] = True
        return obs, self._translate(infos, env_ids)

    def check_env_state(self, states: Mapping[str, np.ndarray]) -> None:
        self._env_states().check_env_state(states)

    def _env_states(self) -> SupportsEnvState:
        assert isinstance(self.envs, SupportsEnvState)
        return self.envs
