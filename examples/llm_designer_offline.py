"""A language model as the designer, offline: replay the conversation of an earlier run, free of charge.

    python examples/llm_designer_offline.py            # replay llm_ledger.jsonl
    python examples/llm_designer_offline.py record     # record it again, with scripted replies instead of a model

Every run with a language model keeps a `ledger.jsonl`; `envgen train crafter --designer llm --llm replay:RUN` replays
it. A replay needs the recorded prompts, so record again after changing them. Here `feedback="none"` leaves success
rates out of the prompts, because they can differ between machines.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import envgen
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Budget, Ledger
from envgen.designers.chat.offline import ManualBackend
from envgen.designers.llm import LlmDesigner, LlmSettings

LEDGER = Path(__file__).with_name("llm_ledger.jsonl")
PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 1024, "final_steps": 512, "feedback_episodes": 2, "audit_steps": 0,
        "episodes": 4}  # fmt: skip
REPLIES = [
    [{"trees": "very common", "near": {"table": True}}, {"biome": "grassland", "cows": "common"}],
    [{"inventory": {"wood_pickaxe": 1}, "near": {"cave": True}}, {"coal": "very common", "zombies": "rare"}],
]


def replay(folder: Path) -> None:
    llm = {"llm": f"replay:{LEDGER}", "feedback": "none"}
    run = envgen.train("crafter", "llm", llm=llm, preset="quick", plan=PLAN, folder=folder)
    print(run.report())


def record(folder: Path) -> None:
    """`ManualBackend` writes each request to a file and waits for a reply file, which this function writes."""
    replies = iter(REPLIES)

    def answer(notice: str) -> None:
        levels = [{"purpose": "practice", "level": level} for level in next(replies)]
        Path(notice.rpartition(" ")[2]).write_text(json.dumps({"levels": levels}))

    backend = ManualBackend(folder / "requests", poll=0.01, notify=answer)
    chat = Chat(backend, Ledger(folder / "ledger.jsonl"), Budget())
    designer = LlmDesigner(lambda: chat, LlmSettings(feedback="none"), "manual")
    envgen.train("crafter", designer, preset="quick", plan=PLAN, folder=folder)
    shutil.copy(folder / "ledger.jsonl", LEDGER)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        (record if "record" in sys.argv else replay)(Path(temporary) / "run")
