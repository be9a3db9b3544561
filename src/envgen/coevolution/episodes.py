"""Multi-turn tasks: the agent's completion of each turn is followed by what the environment answers.

An episode becomes one sequence, prompt, completion, observation, completion, ..., in which only the tokens that the
model generated enter the loss. Its text is the agent's turns, one per line, and the domain scores that text like the
reply to a task of a single turn.
"""

from collections.abc import Callable, Sequence

import torch

from .language_model import LanguageModel
from .sampling import Completions
from .tasks import Domain, Episode, Task

Generate = Callable[[Sequence[Sequence[int]], int], Completions]  # prompts and completions per prompt
MAX_TURN_CHARS = 1000  # of a turn; what follows is cut off


class EpisodeRollout:
    """The sequence of one episode after its prompt."""

    def __init__(self, episode: Episode, prompt: Sequence[int]):
        self.episode, self.prompt = episode, list(prompt)
        self.ids: list[int] = []
        self.generated: list[bool] = []
        self.turns: list[str] = []
        self.done = False

    def add_turn(self, lm: LanguageModel, tokens: Sequence[int]) -> None:
        """Add a completion and the environment's answer to it."""
        turn = normalize_turn(lm.decode(tokens))
        observation = self.episode.step(turn)
        self.turns.append(turn)
        self._extend(tokens, generated=True)
        if observation is None:
            self.done = True
        else:
            self._extend(lm.encode_observation(observation), generated=False)

    def _extend(self, tokens: Sequence[int], generated: bool) -> None:
        self.ids += tokens
        self.generated += [generated] * len(tokens)

    @property
    def text(self) -> str:
        return "\n".join(self.turns)


def play_episodes(
    domain: Domain, lm: LanguageModel, tasks: Sequence[Task], prompts: Sequence[Sequence[int]], num_generations: int,
    generate: Generate,
) -> tuple[Completions, list[str]]:  # fmt: skip
    """Play `num_generations` episodes of each task; returns their sequences and texts, task by task.

    In every turn the episodes that are not over generate together. Under `accelerate launch` all processes receive all
    completions, so that they play the same episodes.
    """
    rollouts = [
        EpisodeRollout(domain.start_episode(task), prompt)
        for task, prompt in zip(tasks, prompts, strict=True)
        for _ in range(num_generations)
    ]
    completions = generate(prompts, num_generations)
    active = rollouts
    while active:
        for rollout, ids, mask in zip(active, completions.ids, completions.mask, strict=True):
            rollout.add_turn(lm, ids[mask].tolist())
        active = [rollout for rollout in active if not rollout.done]
        if active:
            completions = generate([[*rollout.prompt, *rollout.ids] for rollout in active], 1)
    sequences = Completions.from_token_lists([rollout.ids for rollout in rollouts], lm.pad_token_id)
    generated = torch.zeros_like(sequences.mask)
    for row, rollout in zip(generated, rollouts, strict=True):
        row[: len(rollout.generated)] = torch.tensor(rollout.generated)
    return Completions(sequences.ids, sequences.mask, generated), [rollout.text for rollout in rollouts]


def normalize_turn(text: str) -> str:
    """The first MAX_TURN_CHARS characters of a turn, on one line."""
    return " ".join(text[:MAX_TURN_CHARS].split())


def transcript(domain: Domain, task: Task, reply: str) -> list[tuple[str, str]]:
    """The turns of a reply, each with what the environment answers; empty where the episode ends."""
    episode, pairs = domain.start_episode(task), []
    for turn in reply.split("\n"):
        observation = episode.step(turn)
        pairs.append((turn, observation or ""))
        if observation is None:
            break
    return pairs
