"""Language models and ledgers that are damaged or come from someone else."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

from attack_interruptions import models_folder
from attack_runs import copy_of, damage_one_file
from attacks import attack, try_call, work_folder
from toy import Toy

from envgen.coevolution.model_io import load_model
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Budget, Ledger
from envgen.designers.chat.offline import ReplayBackend
from envgen.designers.chat.protocol import Backend, ChatRequest, Message, Reply, Usage

TEMPLATES = (
    "{% for m in messages %}{{ m['content'] }}{% endfor %}", "{{ messages | tojson }}", "{{ 1 / 0 }}", "{% for %}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ raise_exception('no') }}", "{{ messages.x.y }}", "\ud7ff\x00",
    "{% include '/etc/passwd' %}", "{{ cycler.__init__.__globals__.os.system('true') }}", "{{ range(10**9) | list }}",
)  # fmt: skip
SETTINGS = (
    {"attn_implementation": "someone/kernel"}, {"auto_map": {"AutoModelForCausalLM": "module--Class"}},
    {"model_type": "unknown"}, {"num_hidden_layers": -1}, {"hidden_size": "32"}, {"vocab_size": 0}, {"layer_types": 3},
    {"quantization_config": {"quant_method": "gptq"}}, {"dtype": "nonsense"}, {"num_attention_heads": 7},
)  # fmt: skip


@attack("damaged language models", full=1_000, short=15)
def damaged_models(count: int, rng: random.Random) -> Iterator[str]:
    """A model is loaded and encodes texts, or is refused with an error message."""
    texts = [task.prompt for task in Toy().held_out_tasks(5)]

    def use(folder: Path) -> None:
        lm = load_model(folder)
        lm.check_round_trip(texts, "texts")
        for text in texts:
            lm.encode_prompt("system", text)

    for _ in range(count):
        folder = copy_of(models_folder() / "agent")
        match rng.randrange(6):
            case 0:
                template = rng.choice(TEMPLATES)
                (folder / "chat_template.jinja").write_text(template)
                damage = f"the template {template!r}"
            case 1:
                values = rng.choice(SETTINGS)
                config = {**json.loads((folder / "config.json").read_text()), **values}
                (folder / "config.json").write_text(json.dumps(config))
                damage = f"the setting {values}"
            case _:
                damage = damage_one_file(folder, rng)
        yield try_call(f"load_model with {damage}", lambda folder=folder: use(folder))


class Parrot(Backend):
    name, free, timeout = "parrot", False, 10.0

    def send(self, request: ChatRequest) -> Reply:
        return Reply(text=request.messages[0].content, model=self.name, usage=Usage(prompt_tokens=3))


def request(text: str) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), max_tokens=20)


@attack("damaged ledgers", full=5_000, short=150)
def damaged_ledgers(count: int, rng: random.Random) -> Iterator[str]:
    """A chat continues from a ledger, or refuses it with an error message."""
    whole = work_folder() / "ledger"
    chat = Chat(Parrot(), Ledger(whole / "ledger.jsonl"))
    for text in ("one", "two", "two"):
        chat.complete(request(text))
        chat.record_validation(request(text), text == "one", ["an error"])

    def use(folder: Path) -> None:
        chat = Chat(Parrot(), Ledger(folder / "ledger.jsonl"), Budget(max_calls=50, max_tokens=10**6, max_seconds=1e6))
        chat.complete(request("one"))
        chat.totals()

    for _ in range(count):
        folder = copy_of(whole)
        damage = damage_one_file(folder, rng)
        failure = try_call(f"a replay after {damage}", lambda folder=folder: ReplayBackend(folder))
        yield failure or try_call(f"a chat after {damage}", lambda folder=folder: use(folder))
