"""The domain `bfcl`: function calling in the manner of the Berkeley Function Calling Leaderboard.

Each task lists functions that are made for it, and a request. A reply is a list of calls in Python syntax. It is read
and checked by the code of the benchmark, and nothing is executed. `[]` is right where no function fits or a required
value is missing. In tasks of several turns, calls return ids that later calls use, and requests come one after another.
The functions of held-out tasks never occur in training tasks.

`bfcl` lists signatures, which small models learn quickly; `bfcl:json` lists the functions in the form of BFCL's data.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Literal, get_args

import numpy as np

from envgen.function_calls.calls import Call

from ...tasks import CheckResult, Domain, Task
from ..random_choice import shuffle
from .episode import MAX_TURNS, BfclAnswerKey, BfclEpisode
from .functions import TYPES, function_names
from .generator import choose_distractors, choose_linked_steps, choose_steps, leave_out_value, split_requests
from .negatives import format_calls, oracle_turns, wrong_episodes, wrong_replies_to, wrong_replies_without_calls
from .phrasing import phrase_request
from .spec import (
    CATEGORIES_WITHOUT_CALLS,
    MAX_CALLS,
    MAX_DISTRACTORS,
    MAX_PARAMETERS,
    NUM_VARIATIONS,
    STYLES,
    BfclSpec,
    HeldOutSpec,
    check_spec,
    sample_easy_spec,
    sample_spec,
)

Listing = Literal["signatures", "json"]
NAMES = {held_out: function_names(held_out) for held_out in (False, True)}


class BfclDomain(Domain):
    Spec = BfclSpec
    is_multi_turn = True  # the other categories end with the first turn
    instructions = (
        "You answer requests by calling functions. Write the calls as a list in Python syntax, with all arguments by "
        "name, and nothing else: [create_note(topic='golf', pages=3), delete_menu(private=True)]\n"
        "Make one call for each thing that the request asks for. Leave out optional parameters about which it says "
        "nothing. If no function fits, or the request does not give a required value, write [].\n"
        "A function with '-> id' returns an id, which you are shown after your call, and which other functions take. "
        "When you have been shown results and the request needs no other call, write []: you are told what to do next."
    )
    spec_prompt = (
        "A task is a request that is answered by calls of functions. Its form is\n"
        '{"category":"multiple","calls":1,"distractors":2,"parameters":["string","enum?"],"style":"plain",'
        '"variation":17}\n'
        "category, with the calls and distractors that it can have:\n"
        "- simple: one function and one call; calls 1, distractors 0\n"
        f"- multiple: one of several functions is called; calls 1, distractors 1 to {MAX_DISTRACTORS}\n"
        f"- parallel: several calls of one function; calls 2 to {MAX_CALLS}, distractors 0\n"
        f"- parallel_multiple: calls of different functions; calls 2 to {MAX_CALLS}, distractors 0 to "
        f"{MAX_DISTRACTORS}\n"
        f"- irrelevance: no function fits; calls 1, distractors 1 to {MAX_DISTRACTORS}\n"
        f"- multi_turn: calls return ids that later calls use; calls 2 to {MAX_CALLS}, distractors 0 to "
        f"{MAX_DISTRACTORS}\n"
        "- missing_value: the request lacks a required value, so nothing can be called; calls 1, distractors 0 to "
        f"{MAX_DISTRACTORS}\n"
        "distractors: functions that are listed but not needed.\n"
        f"parameters: 1 to {MAX_PARAMETERS} types of the parameters of a function, of {', '.join(TYPES)}. One with a "
        "question mark is optional; at least one is required. With 3 calls, at most 2.\n"
        f"style: the wording of the request, one of {', '.join(STYLES)}.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects other functions and values."
    )

    def __init__(self, listing: str = "signatures"):
        if listing not in get_args(Listing):
            raise ValueError(f"bfcl lists functions as {' or '.join(get_args(Listing))}, not {listing!r}")
        self.listing = listing
        self.name = "bfcl" if listing == "signatures" else f"bfcl:{listing}"  # pyright: ignore

    def make_task(self, spec: BfclSpec) -> Task:
        check_spec(spec)
        rng, names = Random(spec.text), NAMES[isinstance(spec, HeldOutSpec)]
        returned: list[int | None] = []
        if spec.category == "multi_turn":
            steps, returned = choose_linked_steps(spec, names, rng)
        else:
            steps = choose_steps(spec, names, rng)
        needed = list({step.function.name: step.function for step in steps}.values())
        distractors = choose_distractors(spec, steps, names, rng)
        if spec.category == "missing_value":
            steps = [leave_out_value(step, rng) for step in steps]
        functions = tuple(shuffle(distractors if spec.category == "irrelevance" else [*needed, *distractors], rng))
        requested = tuple(Call(step.function.name, step.arguments) for step in steps)
        calls = () if spec.category in CATEGORIES_WITHOUT_CALLS else requested
        expected = tuple(step.expected for step in steps) if calls else ()
        requests = split_requests(steps, rng) if spec.category == "multi_turn" else [steps]
        texts = [
            phrase_request(spec.style, [(step.function, step.values) for step in request], rng) for request in requests
        ]
        key = BfclAnswerKey(functions, requested, calls, expected)
        if spec.category == "multi_turn":
            counts = tuple((len(request), text) for request, text in zip(requests, texts, strict=True))
            key = replace(key, requests=counts, results=tuple(_format_result(number) for number in returned))
        lines = (function.json if self.listing == "json" else function.signature for function in functions)
        return Task(spec, "\n".join(["functions:", *lines, f"request: {texts[0]}"]), key)

    def start_episode(self, task: Task) -> BfclEpisode:
        return BfclEpisode(task.answer_key)

    def oracle_reply(self, task: Task) -> str:
        key: BfclAnswerKey = task.answer_key
        return "\n".join(oracle_turns(key)) if key.requests else format_calls(key.calls)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        key: BfclAnswerKey = task.answer_key
        if key.requests:
            return (task.prompt, *wrong_episodes(key))
        if key.calls:
            return (task.prompt, *wrong_replies_to(key.functions, key.calls))
        return (task.prompt, *wrong_replies_without_calls(key.functions, key.requested))

    def check(self, task: Task, reply: str) -> CheckResult:
        """The rules of BFCL, except that a reply without calls must be `[]` and that positional and empty arguments are
        wrong."""
        key: BfclAnswerKey = task.answer_key
        episode = BfclEpisode(key)
        for turn in reply.split("\n", MAX_TURNS)[:MAX_TURNS] if key.requests else [reply]:
            if episode.step(turn) is None:
                break
        return CheckResult(float(episode.is_right), episode.is_valid, episode.reason)

    def sample(self, rng: np.random.Generator) -> BfclSpec:
        return sample_spec(rng)

    def sample_easy(self, rng: np.random.Generator) -> BfclSpec:
        return sample_easy_spec(rng)

    def sample_held_out(self, rng: np.random.Generator) -> HeldOutSpec:
        """A spec whose functions and variation no training task has."""
        fields = self.sample(rng).model_dump()
        return HeldOutSpec(**{**fields, "variation": fields["variation"] + NUM_VARIATIONS})

    def features(self, spec: BfclSpec) -> Mapping[str, str]:
        types = {kind for kind, _ in spec.types}
        return {
            "category": spec.category,
            "parameters": str(len(spec.parameters)),
            "optional": "yes" if any(not is_required for _, is_required in spec.types) else "no",
            "nested": " and ".join(kind for kind in ("array", "object") if kind in types) or "none",
            "distractors": str(spec.distractors),
            "style": spec.style,
        }

    def difficulty(self, spec: BfclSpec) -> float:
        """Each parameter of each requested call counts 1, an array or object 2, and each distractor 1/2.

        In tasks of several turns, each call counts 1 more.
        """
        per_call = sum(2 if kind in ("array", "object") else 1 for kind, _ in spec.types)
        per_call += spec.category == "multi_turn"
        return spec.calls * per_call + spec.distractors / 2


def _format_result(returned: int | None) -> str:
    return "done" if returned is None else f"id {returned}"
