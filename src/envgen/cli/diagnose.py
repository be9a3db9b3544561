"""`envgen diagnose`: why a policy does not master some skills."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from .common import (
    UserError,
    load_policy_and_world,
    output_folder,
    read_level,
    require_extra,
    require_positive,
    require_run,
    require_seed,
)
from .options import default, required


def diagnose(
    run: Annotated[Path, Positional, required("RUN")],
    episodes: int = 256,
    threshold: float = 50.0,
    world: Annotated[str | None, default("the one of the run")] = None,
    learner: Annotated[str | None, default("the one of the run")] = None,
    level: Annotated[Path | None, default("the original")] = None,
    seed: Annotated[int | None, default("one that training never uses")] = None,
    deterministic: bool = False,
    device: str = "cpu",
) -> None:
    """Measure why the policy of a run does not master some skills, without learning.

    Prints tables, and writes diagnosis.json and diagnosis.png to the run directory (for a release file or a policy
    from the cache or the hub, to out/NAME).

    Args:
        run: The run directory, or a trained policy: a folder saved by `policy.save`, a release file, the name of one
            in the cache, or hf:owner/name.
        episodes: Number of episodes.
        threshold: Skills that succeed in at least this percentage of the episodes are mastered.
        world: A world, or module:Class. Needed for runs in a world of your own that is not installed.
        learner: The learner of the run, if it is one of your own: module:Class.
        level: A JSON file with a level.
        seed: Seed of environments and actions.
        deterministic: Take the most likely action instead of sampling.
        device: Device of the network: cpu, cuda, cuda:1, ...
    """
    require_extra("train")
    require_positive(episodes=episodes)
    if not 0 < threshold <= 100:
        raise UserError(f"--threshold must be above 0 and at most 100 percent, not {threshold:g}")
    if seed is not None:
        require_seed(seed)
    require_run(run)
    from envgen import api
    from envgen.report.diagnosis import diagnosis_tables, plot_diagnosis
    from envgen.runs.display import TerminalConsole
    from envgen.runs.store import write_json

    policy, chosen = load_policy_and_world(run, device, world, learner)
    folder = output_folder(run)
    folder.mkdir(parents=True, exist_ok=True)  # before the episodes, which take a while
    result = api.diagnose(
        policy, episodes, threshold=threshold, world=chosen, level=read_level(level, chosen), seed=seed,
        deterministic=deterministic,
    )  # fmt: skip
    document = result.model_dump(mode="json")
    print(result.evaluation.summary)
    console = TerminalConsole()
    console.print(diagnosis_tables(document))
    write_json(folder / "diagnosis.json", document)
    plot_diagnosis(folder, folder / "diagnosis.png")
    print(f"Written: {folder / 'diagnosis.json'}, {folder / 'diagnosis.png'}")
