"""`LlmAgent`: a language model that plays one environment from its text observations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envgen.designers.chat.protocol import ChatRequest
from envgen.worlds.world import World

from .actions import parse_action
from .questions import QUESTIONS, PastStep, action_schema, example_answer, idle_action, messages, step_prompt
from .settings import LlmAgentSettings


class LlmAgent:
    """Plays one environment with `run_episodes`, as its agent and its observer.

    Each step asks the questions of the settings in order, each as a request of its own.
    """

    has_memory = True  # of the last actions

    def __init__(
        self,
        world: World,
        settings: LlmAgentSettings,
        ask: Callable[[int, ChatRequest], str],
        done_skills: Sequence[str] = (),
        on_step: Callable[[dict[str, Any]], object] = lambda line: None,
    ):
        """
        Args:
            ask: Called with the number of the step, from 1, and a request; returns the reply.
            done_skills: Skills that count as achieved from the start; see `Level.done_skills`.
            on_step: Called after every step with its number, action, reward, the skills first
                achieved in it, and whether it ended the episode.
        """
        self.world, self.settings, self.ask, self.on_step = world, settings, ask, on_step
        self.done_skills = tuple(done_skills)
        self.questions = QUESTIONS[settings.questions]
        self.schema = action_schema(world.actions, settings.questions == "direct") if settings.json_schema else None
        self.example = example_answer(world.actions, self.schema)
        self.reset()

    def reset(self, infos: Mapping[str, Any] | None = None) -> None:
        self.num_unparsable = 0
        self.past: list[PastStep] = []
        self.achieved: dict[str, int] = {}  # skill: step of its first success
        self._step = 0
        self._action, self._text, self._parsed, self._reward = "", "", True, 0.0
        self._new_skills: list[str] = []

    def act(self, obs: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        text = str(obs[0])
        if self._step:
            self.past.append(PastStep(self._step, self._action, self._describe_result(text)))
        self._step += 1
        action = parse_action(self._answer_questions(text), self.world.actions)
        self._text, self._parsed = text, action is not None
        self.num_unparsable += action is None
        self._action = idle_action(self.world.actions) if action is None else action
        return np.array([self.world.actions.index(self._action)])

    def observe(self, rewards: Any, dones: Any, infos: Mapping[str, Any] | None = None) -> None:
        self._reward = float(rewards[0])
        line = {"step": self._step, "action": self._action, "parsed": self._parsed, "reward": self._reward}
        self.on_step({**line, "achieved": self._new_skills, "ended": bool(dones[0])})

    def before_step(self, actions: np.ndarray, playing: np.ndarray) -> None:
        pass

    def after_step(
        self, playing: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, infos: Mapping[str, Any]
    ) -> None:
        if terminated[0] or truncated[0]:
            infos = infos["final_info"]
        names = [skill.name for skill in self.world.skills]
        self._new_skills = [
            name
            for name, count in zip(names, infos["achievements"][0], strict=True)
            if count and name not in self.achieved and name not in self.done_skills
        ]
        self.achieved |= dict.fromkeys(self._new_skills, self._step)

    def _describe_result(self, text: str) -> str:
        parts = [self.world.describe_result(self._action, self._text, text)]
        parts += ["your answer did not name exactly one action, so this one was taken"] if not self._parsed else []
        parts += [f"reward {self._reward:+.1f}"] if self._reward else []
        parts += [f"achieved {', '.join(self._new_skills)}"] if self._new_skills else []
        return "; ".join(part for part in parts if part)

    def _answer_questions(self, text: str) -> str:
        """The answer to the last question."""
        answers: dict[str, str] = {}
        past = self.past[max(0, len(self.past) - self.settings.num_past_actions) :]
        achieved = [*self.done_skills, *self.achieved]
        for question in self.questions:
            prompt = step_prompt(question, self.questions, answers, text, self._step, past, achieved, self.example)
            request = ChatRequest(
                messages=messages(self.world, prompt),
                json_schema=self.schema if question is self.questions[-1] else None,
                max_tokens=self.settings.max_reply_tokens,
                temperature=self.settings.temperature,
            )
            answers[question.name] = self.ask(self._step, request)
        return answers[self.questions[-1].name]
