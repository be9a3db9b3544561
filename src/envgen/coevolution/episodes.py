"""Multi-turn tasks: the agent's completion of each turn is followed by what the environment answers.

An episode becomes one sequence, prompt, completion, observation, completion, ..., in which only the tokens that the
model generated enter the loss. Its text is the agent's turns, one per line, and the domain scores that text like the
reply to a task of a single turn.
"""

from collections.abc import Callable, Sequence

from .language_model import LanguageModel
from .tasks import Domain, Task, explaining_errors

MAX_TURN_CHARS = 1000  # of a turn; what follows is cut off


class EpisodeRollout:
    """A conversation with an episode (sampling.py)."""

    def __init__(self, domain: Domain, task: Task, lm: LanguageModel):
        self.domain, self.lm = domain, lm
        with explaining_errors(domain):
            self.episode = domain.start_episode(task)
        self.turns: list[str] = []

    def answer(self, tokens: Sequence[int]) -> list[int] | None:
        turn = normalize_turn(self.lm.decode(tokens))
        with explaining_errors(self.domain):
            observation = self.episode.step(turn)
        self.turns.append(turn)
        if observation is None:
            return None
        is_truncated = not tokens or tokens[-1] != self.lm.eos_token_id  # at max_new_tokens, without an end
        return [self.lm.eos_token_id] * is_truncated + self.lm.encode_observation(observation)

    @property
    def text(self) -> str:
        return "\n".join(self.turns)


StartEpisode = Callable[[int], EpisodeRollout]  # of the prompt with this index


def episode_starter(domain: Domain, lm: LanguageModel, tasks: Sequence[Task]) -> StartEpisode:
    """Starts an episode of the task with the given index."""
    return lambda index: EpisodeRollout(domain, tasks[index], lm)


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
