"""The settings of a run of a benchmark."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from envgen.designers.chat.runtime import LlmRuntime
from envgen.settings import Settings

PARALLEL = 8


class BenchmarkOptions(Settings):
    """Options of the benchmarks. Each takes some of them."""

    PATHS: ClassVar[tuple[str, ...]] = ("data", "passages")
    """The options that are paths."""

    data: Path | None = None
    """The folder with the official files of the benchmark."""
    calls: Literal["prompt", "native"] | None = None
    """How the model calls functions: as text that the prompt describes, or through the function calling of its API."""
    games: Literal["floor_plans", "rooms"] | None = None
    """Generate games in place of the official ones, from the floor plans of the package alfworld or from generated
    rooms."""
    passages: Path | None = None
    """A file of passages for a search tool, one JSON object with title and text per line."""

    def explicitly_set(self) -> dict[str, Any]:
        return {name: value for name, value in self.model_dump().items() if value is not None}


class ModelSettings(Settings):
    """How a language model generates answers."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """The sampling temperature; 0 is greedy decoding. Left out where a server does not accept it."""
    max_reply_tokens: Annotated[int, Field(ge=16)] = 4096
    """The maximum length of a reply, including the reasoning of models that bill it as part of the reply."""


class BenchmarkConfig(LlmRuntime, ModelSettings):
    """Which language model answers, and how."""

    llm: str
    """openai:MODEL (any compatible server, with --base-url), anthropic:MODEL, manual, replay:FOLDER (an earlier run),
    hf:MODEL (a folder, or a name on the Hugging Face Hub), run:FOLDER (the agent of a run of coevolve), gold (the
    answers of the benchmark itself) or empty (no answer at all)."""
    parallel: Annotated[int, Field(ge=1, le=256)] | None = None
    """Items answered at the same time. By default 8, or 1 with manual and models in this process."""
    device: str = "cpu"
    """Device of a model in this process: cpu, cuda, cuda:1, ..."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type in which a model in this process is loaded."""

    models_folder: Path = Path("out/models")
    """The folder of the small models that runs of coevolve start from."""

    @property
    def model_settings(self) -> ModelSettings:
        return ModelSettings(**{name: getattr(self, name) for name in ModelSettings.model_fields})

    @property
    def num_workers(self) -> int:
        one_at_a_time = self.llm == "manual" or self.llm.startswith(("hf:", "run:"))
        return self.parallel or (1 if one_at_a_time else PARALLEL)
