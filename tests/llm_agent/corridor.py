"""A world in plain Python that is observed as text: ring the bell, then walk to the door."""

import json
import re
import string
from typing import Any

from gymnasium import spaces
from pydantic import Field

import envgen
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Skill
from fake_llm_server import completion


class CorridorLevel(envgen.Level):
    length: int = Field(default=4, ge=2, le=50)
    """Steps from the left end to the door."""


class CorridorEnv(PythonEnv):
    observation_space = spaces.Text(max_length=60, charset=frozenset(string.printable))
    max_episode_steps = 12

    def begin(self) -> dict[str, int]:
        return {"position": int(self.np_random.integers(2)), "rung": 0}

    def observe(self) -> str:
        return f"You are at {self.state['position']} of {self.level.length}. Bell: {self.state['rung']}."

    def advance(self, action: int) -> tuple[float, bool]:
        if action == 2:
            self.state["rung"] += 1
            self.achieve("ring_bell")
            return 0.5, False
        self.state["position"] = max(0, self.state["position"] + (-1, 1)[action])
        at_door = self.state["position"] == self.level.length
        if at_door:
            self.achieve("find_door")
        return float(at_door), at_door


class Corridor(PythonWorld):
    name, Level, env_class = "corridor", CorridorLevel, CorridorEnv
    skills, actions = (Skill("ring_bell"), Skill("find_door")), ("walk_left", "walk_right", "ring")
    observations = ("text",)
    action_descriptions = {"ring": "ring the bell"}  # noqa: RUF012
    rules = "You are in a corridor. The door is at its right end."


def play(handler: Any, body: Any) -> None:
    """The model: it rings the bell once, then walks to the door."""
    prompt = body["messages"][-1]["content"]
    if '"action": "walk_left"' not in prompt:  # the example of the last question
        text = f"thought {len(prompt)}"
    elif "Bell: 0" in prompt:
        text = "I have not rung yet.\n\nAction: **ring**"
    else:
        text = json.dumps({"action": "walk_right"})
    completion(text, prompt=len(prompt) // 4, reply=10)(handler, body)


def observation_in(body: Any) -> str:
    return re.search(r"You are at .*", body["messages"][-1]["content"])[0]
