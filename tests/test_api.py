"""The public API: what `import envgen` offers, and a run from training to a loaded policy."""

import ast
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import envgen
import envgen.worlds
from envgen.agents.ppo import PPO
from envgen.curriculum.diagnosis import Diagnosis, EndDiagnosis
from envgen.curriculum.evaluate import Estimate, Evaluation
from envgen.curriculum.initial_policy import InitialPolicy
from envgen.curriculum.plan import EVALUATION_SEED
from envgen.curriculum.trainer import make_learner
from envgen.designers.designer import Brief, Cycle, Proposal, ProposedLevel
from envgen.episodes_api import Recording
from envgen.report.episodes import RecordedEpisode
from envgen.runs.store import read_request
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.registry import make_world

SMALL = {"cycles": 1, "levels": 2, "cycle_steps": 512, "final_steps": 512, "feedback_groups": 2, "feedback_episodes": 2,
         "episodes": 3, "audit_steps": 20}  # fmt: skip
SETTINGS = {"num_envs": 8, "num_steps": 32}
FAR = Path(__file__).parents[1] / "policies" / "crafter-far"


class TreesOnly(envgen.Designer):
    """A designer of a user: it implements the one required method and nothing else."""

    name = "trees-only"

    def design(self, brief: Brief, history: list[Cycle]) -> Proposal:
        level = brief.Level.parse({"trees": "very common"})
        return Proposal(levels=(ProposedLevel(level=level, skills=("collect_wood",)),) * brief.num_levels)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> envgen.TrainingRun:
    folder = tmp_path_factory.mktemp("api") / "run"
    return envgen.train("crafter", "expert", plan=SMALL, hyperparameters=SETTINGS, folder=folder, verbose=False)


def test_importing_is_fast_and_imports_no_heavy_library():
    program = "import sys, envgen; print([m for m in ('numba', 'torch', 'crafter', 'pydantic') if m in sys.modules])"
    durations = []
    for _ in range(3):
        start = time.perf_counter()
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        durations.append(time.perf_counter() - start)
        assert result.stdout.strip() == "[]"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import gymnasium"], check=True)
    assert min(durations) < time.perf_counter() - start + 0.3


@pytest.mark.parametrize("name", envgen.__all__)
def test_every_public_name_exists_and_is_documented(name):
    assert getattr(envgen, name).__doc__
    assert name in dir(envgen)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="trian"):
        envgen.trian  # noqa: B018


def test_a_run_has_an_evaluation_and_a_policy(run):
    assert run.final.episodes == 3
    assert run.final.world == "crafter"
    assert "3 episodes of crafter" in run.report()
    obs, _ = envgen.make_world("crafter").make(num_envs=4, seed=0, observation="symbols").reset()
    assert run.policy().act(obs).shape == (4,)
    assert re.fullmatch(r"<Policy: crafter, symbols, [\d,]+ parameters>", repr(run.policy()))
    assert "learner=" in repr(run)
    assert len(repr(run)) < 200


def test_a_policy_is_loaded_from_a_run_and_from_a_saved_folder(run, tmp_path):
    policy = envgen.load_policy(run.folder)
    env = gymnasium.make("envgen/Crafter-v0", observation="symbols")
    obs, _ = env.reset(seed=0)
    action, state = policy.predict(obs, deterministic=True)
    assert state is None
    assert env.action_space.contains(int(action))
    batch = np.stack([obs, obs])
    assert policy.predict(batch, deterministic=True)[0].tolist() == [int(action)] * 2
    policy.save(tmp_path / "policy")
    saved = envgen.load_policy(tmp_path / "policy")
    assert saved.predict(obs, deterministic=True)[0] == action
    first, second = envgen.evaluate(policy, 4), envgen.evaluate(tmp_path / "policy", 4)
    assert first == second
    assert first == envgen.evaluate(run, 4)


def test_evaluation_plays_a_given_level(run):
    result = envgen.evaluate(run, 2, level={"trees": "none"})
    assert result.level["trees"] == "none"
    assert result.skills["collect_wood"].value == 0


def test_a_diagnosis_plays_the_episodes_of_an_evaluation(run):
    diagnosis = envgen.diagnose(run, 4)
    assert diagnosis.evaluation == envgen.evaluate(run.policy(), 4)
    assert sum(end.episodes for end in diagnosis.ends) == 4
    assert diagnosis == envgen.diagnose(run.folder, 4)
    assert envgen.diagnose(run, 2, level={"length": 3}).ends[0].cause == "time limit"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1, not 0"),
        ({"episodes": 2.5}, "episodes must be an integer, not 2.5"),
        ({"episodes": "3"}, "episodes must be an integer, not '3'"),
        ({"seed": -1}, "seed must be 0 or greater, not -1"),
        ({"threshold": 0}, "threshold must be above 0 and at most 100 percent, not 0"),
        ({"threshold": None}, "threshold must be a number, not None"),
        ({"threshold": "50"}, "threshold must be a number, not '50'"),
        ({"threshold": 101}, "threshold must be above 0 and at most 100 percent, not 101"),
        ({"world": "craftr"}, "did you mean 'crafter'"),
        ({"level": {"tres": "none"}}, "did you mean 'trees'"),
    ],
)
def test_wrong_arguments_of_a_diagnosis_are_errors(run, arguments, message):
    with pytest.raises(envgen.EnvgenError, match=message):
        envgen.diagnose(run, **arguments)


@pytest.fixture
def edit_request(run, tmp_path, monkeypatch):
    """A function that changes the request of a copy of the run, beside a module that must not be imported."""
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "untrusted_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    def edit(change):
        file = tmp_path / "run" / "run.json"
        entry = json.loads(file.read_text())
        change(entry["request"])
        file.write_text(json.dumps(entry))

    return edit


def test_a_world_of_ones_own_is_not_imported_from_a_run_directory(run, tmp_path, edit_request):
    edit_request(lambda request: request.update(world="untrusted_module:World"))
    with pytest.raises(envgen.EnvgenError, match="resume by repeating the command or call"):
        envgen.resume(tmp_path / "run", verbose=False)
    for play in (envgen.load_policy, envgen.evaluate):
        with pytest.raises(envgen.EnvgenError, match="pass world="):
            play(tmp_path / "run")
    assert envgen.evaluate(tmp_path / "run", 2, world=run.world).episodes == 2


def test_a_learner_of_ones_own_is_not_imported_from_a_run_directory(run, tmp_path, edit_request):
    edit_request(lambda request: request["learner"].update(name="untrusted_module:Learner"))
    with pytest.raises(envgen.EnvgenError, match="resume by repeating the command or call"):
        envgen.resume(tmp_path / "run", verbose=False)
    for play in (envgen.load_policy, envgen.evaluate, envgen.diagnose):
        with pytest.raises(envgen.EnvgenError, match="pass learner="):
            play(tmp_path / "run")
    assert envgen.evaluate(tmp_path / "run", 2, learner="ppo") == envgen.evaluate(run, 2)
    assert envgen.diagnose(tmp_path / "run", 2, learner=PPO).evaluation == envgen.evaluate(run, 2)
    assert envgen.load_policy(tmp_path / "run", learner=PPO).metadata["world"] == "crafter"


def test_a_policy_is_not_played_in_a_world_that_it_does_not_match(run):
    for play in (envgen.load_policy, envgen.evaluate):
        with pytest.raises(envgen.EnvgenError, match="trained in the world crafter, which heist does not match"):
            play(run.folder, world="heist")


def test_the_error_names_both_learners_if_another_one_trained_the_run(run, tmp_path, edit_request):
    message = (
        "run was trained by the learner 'ppo', and the learner 'distillation' cannot load it: .*; pass the learner"
    )
    for play in (envgen.load_policy, envgen.evaluate, envgen.diagnose):
        with pytest.raises(envgen.EnvgenError, match=message):
            play(run.folder, learner="distillation")
    with pytest.raises(envgen.EnvgenError, match=r"was started with learner.name 'ppo' \(now 'distillation'\)"):
        envgen.train("crafter", plan=SMALL, learner="distillation", folder=run.folder, verbose=False)
    edit_request(lambda request: request["learner"].update(name="distillation"))
    with pytest.raises(envgen.EnvgenError, match="trained by the learner 'distillation', and the learner 'ppo' cannot"):
        envgen.load_policy(tmp_path / "run", world="heist", learner="ppo")


def test_a_run_with_a_learner_of_ones_own_has_a_policy(tmp_path):
    class OwnLearner(PPO):
        """Nothing is different."""

    run = envgen.train(
        "crafter", plan=SMALL, hyperparameters=SETTINGS, learner=OwnLearner, folder=tmp_path / "run", verbose=False
    )
    assert envgen.evaluate(run, 3).episodes == 3
    with pytest.raises(envgen.EnvgenError, match="pass learner="):
        envgen.evaluate(run.folder, 3)

    class OwnCrafter(Crafter):
        name = "own_crafter"

    own = {"world": OwnCrafter(), "learner": OwnLearner, "designer": "none", "verbose": False}
    plan = {"cycles": 0, "final_steps": 512, "episodes": 4}
    first = envgen.train(**own, plan=plan, hyperparameters=SETTINGS, folder=tmp_path / "first")
    plan["final_steps"] = 0  # it starts from a run directory with the same world and learner
    second = envgen.train(
        **own, plan=plan, hyperparameters=SETTINGS, folder=tmp_path / "second", initial_policy=tmp_path / "first"
    )
    assert second.final == first.final


def test_a_designer_of_ones_own_is_accepted_as_instance_class_and_path(tmp_path, monkeypatch):
    results = []
    for k, designer in enumerate((TreesOnly(), TreesOnly)):
        run = envgen.train(
            "crafter", designer, plan=SMALL, hyperparameters=SETTINGS, folder=tmp_path / str(k), verbose=False
        )
        results.append(run.final)
    (tmp_path / "own_module.py").write_text(
        "from envgen.designers.designer import Proposal\nimport envgen\n"
        "class Own(envgen.Designer):\n    name = 'own'\n    def design(self, brief, history): return Proposal()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = envgen.train(
        "crafter", "own_module:Own", plan=SMALL, hyperparameters=SETTINGS, folder=tmp_path / "own", verbose=False
    )
    assert results[0] == results[1]
    assert run.summary.steps["levels"] == 0


@pytest.mark.parametrize("returned", [None, 3, "levels", [{}]])
def test_a_designer_that_returns_no_proposal_is_an_error_with_a_message(returned, tmp_path):
    class Wrong(envgen.Designer):
        name = "wrong"

        def design(self, brief, history):
            return returned

    with pytest.raises(envgen.EnvgenError, match="Proposal"):
        envgen.train("crafter", Wrong(), plan=SMALL, hyperparameters=SETTINGS, folder=tmp_path / "run", verbose=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world": "craftr"}, "did you mean 'crafter'"),
        ({"designer": "exprt"}, "did you mean 'expert'"),
        ({"preset": "fast"}, "'fast' is not one of"),
        ({"preset": None}, "preset None is not one of paper, quick"),
        ({"preset": ["quick"]}, r"preset \['quick'\] is not one of paper, quick"),
        ({"learner_preset": 3}, "learner preset 3 is not one of"),
        ({"folder": 5}, "folder must be a path, not 5"),
        ({"initial_policy": 5}, "initial_policy must be a path, not 5"),
        ({"plan": {"cycels": 3}}, "did you mean 'cycles'"),
        ({"hyperparameters": {"learning_rat": 1}}, "did you mean 'learning_rate'"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed must be an integer, not 1.5"),
        ({"seed": True}, "seed must be an integer, not True"),
        ({"practice": 0.2}, "practice must be a mapping, not 0.2"),
        ({"plan": {1: 2}}, "the keys of plan must be names, not 1"),
        ({"device": None}, "device None is not available: pass a name such as 'cuda:0'"),
        ({"plan": "quick"}, "plan must be a mapping, not 'quick'"),
        ({"levels": {"trees": "rare"}}, "levels must be a list, not {'trees': 'rare'}"),
        ({"levels": "levels.json"}, "levels must be a list, not 'levels.json'"),
        ({"levels": 3}, "levels must be a list, not 3"),
        ({"save_every": -1}, "save_every must be a number of seconds, 0 or greater, not -1"),
        ({"log": "tensorboard"}, "log must be a list of names"),
        ({"network": 3}, "network must be a mapping, not 3"),
        ({"hyperparameters": {"network": "tile"}}, "'tile' is not one of auto, .*did you mean 'tiles'"),
        ({"observation": "pixel"}, "did you mean 'pixels'"),
        ({"device": "banana"}, "device 'banana' is not available"),
        ({"device": None}, "device None is not available"),
        ({"learner": "pp"}, "did you mean 'ppo'"),
        ({"designer": "alpha", "designer_options": {"bta": 1}}, "did you mean 'beta'"),
        ({"designer": "alpha", "designer_options": 0.5}, "designer_options must be a mapping, not 0.5"),
        (
            {"designer": 3},
            "^3 is not a designer; pass the name of a designer, such as 'expert', a subclass of envgen.Des",
        ),
        ({"designer": envgen.Designer}, "^Designer does not define design; pass the name of a designer, such as "),
        ({"designer": lambda brief, history: Proposal()}, "^<lambda> is not a designer; pass the name of a designer, "),
        ({"plan": {"preset": "quick"}}, "setting 'preset' is not one of cycles, levels"),
        ({"plan": {"ratio": float("inf")}}, "ratio: Input should be a finite number"),
        ({"seed": 2**31}, "seed must be from 0 to 2147483647, not 2147483648"),
        ({"initial_policy": "crafter-nar"}, "crafter-nar is neither a folder nor a policy in"),
        (
            {"initial_policy": FAR},
            "different network: history True instead of False; train with the same settings",
        ),
        ({"initial_policy": FAR, "network": {"width": 64}}, "history True instead of False, width 256 instead of 64"),
        ({"initial_policy": FAR, "observation": "pixels"}, "it was trained in crafter with symbols observations"),
        ({"initial_policy": FAR, "learner": "distillation"}, "trained by another learner or with a different network"),
    ],
)
def test_wrong_arguments_are_errors_with_the_nearest_right_one(arguments, message, tmp_path):
    with pytest.raises(envgen.EnvgenError, match=message):
        envgen.train(**{"plan": SMALL, "folder": tmp_path / "run", "verbose": False, **arguments})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("call", [envgen.load_policy, envgen.evaluate, envgen.resume, envgen.compare])
def test_a_name_that_is_too_long_for_a_file_is_no_run(call):
    with pytest.raises(envgen.EnvgenError):
        call("a" * 300)


def test_a_policy_is_loaded_and_evaluated_without_the_other_processes(run, monkeypatch):
    expected = envgen.evaluate(run.folder, 2)
    # processes that never come; to wait for them would take minutes
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("envgen.agents.parallel.meet", lambda: pytest.fail("waits for the other processes"))
    assert envgen.load_policy(run.folder).metadata["world"] == "crafter"
    assert envgen.evaluate(run.folder, 2) == envgen.evaluate(run, 2) == expected
    assert not torch.distributed.is_initialized()


def test_a_run_starts_from_the_weights_of_a_policy(run, tmp_path):
    policy = run.policy()
    policy.save(tmp_path / "saved")
    arguments: dict[str, Any] = {"designer": "none", "hyperparameters": SETTINGS, "verbose": False}
    plan = {"cycles": 0, "final_steps": 0, "episodes": 4}
    expected = envgen.evaluate(policy, 4, seed=EVALUATION_SEED)
    sources: list[Any] = [policy, run, run.folder, tmp_path / "saved"]
    folders = [tmp_path / str(k) for k in range(len(sources))]
    for source, folder in zip(sources, folders, strict=True):
        assert envgen.train(**arguments, plan=plan, folder=folder, initial_policy=source).final == expected
    assert len({read_request(folder)[0]["initial_policy"]["sha256"] for folder in folders}) == 1
    statistics = policy.return_statistics
    assert statistics["debiasing_term"] > 0
    for source in (policy, envgen.load_policy(tmp_path / "saved")):  # the values keep their scale
        learner = make_learner(make_world("crafter"), "symbols", settings=SETTINGS)
        InitialPolicy("saved", lambda source=source: source).copy_to(learner)
        assert learner.return_normalizer.state_dict() == statistics
    with pytest.raises(envgen.EnvgenError, match="initial_policy"):  # other settings than before
        envgen.train(**arguments, plan=plan, folder=folders[0])
    trained = envgen.train(
        **arguments, plan={**plan, "final_steps": 512}, folder=tmp_path / "trained", initial_policy=policy
    )
    assert trained.final != expected


def test_a_run_with_an_initial_policy_is_resumed(run, tmp_path):
    policy, folder, saved = run.policy(), tmp_path / "run", tmp_path / "saved"
    policy.save(saved)
    plan = {"cycles": 1, "cycle_steps": 512, "final_steps": 0, "episodes": 4}
    first = envgen.train(
        "crafter", "none", plan=plan, hyperparameters=SETTINGS, folder=folder, initial_policy=saved, verbose=False
    )
    (folder / "summary.json").unlink()
    moved = saved.rename(tmp_path / "moved")
    assert envgen.resume(folder, verbose=False).final == first.final  # its checkpoint has the weights
    for name in ("summary.json", "progress.jsonl"):
        (folder / name).unlink()
    shutil.rmtree(folder / "checkpoints")
    shutil.rmtree(folder / "cycles")
    with pytest.raises(envgen.EnvgenError, match=r"saved is not a (run directory|saved policy)"):
        envgen.resume(folder, verbose=False)
    moved.rename(saved)
    assert envgen.resume(folder, verbose=False).final == first.final
    for name in ("summary.json", "progress.jsonl"):
        (folder / name).unlink()
    shutil.rmtree(folder / "checkpoints")
    with torch.no_grad():
        next(policy.network.parameters()).add_(1.0)
    policy.save(saved)
    with pytest.raises(envgen.EnvgenError, match="started from different weights than"):
        envgen.resume(folder, verbose=False)


def test_network_settings_among_the_hyperparameters_keep_those_of_the_learner_preset(tmp_path):
    envgen.train(
        designer="none", plan={"cycles": 0, "final_steps": 32, "episodes": 1}, learner_preset="far",
        network={"width": 32}, hyperparameters={"num_envs": 4, "num_steps": 8, "network": {"depth": 2, "width": 64}},
        folder=tmp_path / "run", verbose=False,
    )  # fmt: skip
    request, _ = read_request(tmp_path / "run")
    network = request["learner"]["network"]
    assert (network["history"], network["unimix"]) == (True, 0.01)
    assert (network["depth"], network["width"]) == (2, 32)


@pytest.mark.parametrize("call", [envgen.load_policy, envgen.evaluate, envgen.resume, envgen.compare])
@pytest.mark.parametrize("argument", [None, 5])
def test_what_is_not_a_path_is_no_run(call, argument):
    with pytest.raises(envgen.EnvgenError, match=f"must be a path, not {argument}"):
        call(argument)


@pytest.mark.parametrize("runs", [["a", "b"], ("a",), (name for name in "ab")])
def test_runs_to_compare_are_separate_arguments(runs):
    with pytest.raises(envgen.EnvgenError, match=r"compare\(\*runs\)"):
        envgen.compare(runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmark": None}, "benchmark must be a name or a Benchmark, not None"),
        ({"llm": None}, "llm must be a name or a mapping, not None"),
        ({"options": {1: 2}}, "the keys of options must be names, not 1"),
        ({"options": "folder"}, "options must be a mapping, not 'folder'"),
        ({"folder": 5}, "folder must be a path, not 5"),
        ({"categories": 5}, "categories must be a list of names, not 5"),
        ({"categories": [5]}, "category 5 is not one of"),
    ],
)
def test_wrong_arguments_of_a_benchmark_are_errors(arguments, message):
    class NoItems:
        name, categories, averages = "none", ("all",), {}

    with pytest.raises(envgen.EnvgenError, match=message):
        envgen.run_benchmark(**{"benchmark": NoItems(), "llm": "empty", "verbose": False, **arguments})


def test_the_language_model_of_an_agent_is_a_name_or_a_mapping():
    with pytest.raises(envgen.EnvgenError, match="llm must be a name or a mapping, not None"):
        envgen.evaluate_llm_agent("crafter", None)  # pyright: ignore[reportArgumentType]


def test_runs_are_compared(run):
    comparison = envgen.compare(run.folder)
    assert "expert" in comparison.markdown()
    assert "collect_wood" in comparison.text(100)
    assert str(comparison) == comparison.text()


def test_an_evaluation_has_the_complete_level(run):
    world = make_world("crafter")
    assert world.Level.parse(run.final.level) == world.original
    assert run.final.level.keys() == world.Level.model_fields.keys()


def test_results_have_short_representations():
    one = Estimate(value=1, low=1, high=1)
    evaluation = Evaluation(
        world="crafter", level={}, seed=1, deterministic=False, episodes=3, reward=one, length=one, score=one, skills={}
    )
    crafter = make_world("crafter")
    episode = RecordedEpisode(1, 1, (1,) * 10_000, (), 1.0, {})
    end = EndDiagnosis(cause="time limit", episodes=1000, lengths=(1,) * 1000, circumstances={})
    diagnosis = Diagnosis(evaluation=evaluation, threshold=50, length_quantiles={}, ends=(end,), skills={})
    assert len(repr(episode)) < 100
    assert repr(Recording(crafter, crafter.Level(), evaluation, [episode])).startswith("<Recording: 3 episodes of")
    assert repr(diagnosis).startswith("<Diagnosis: 3 episodes of crafter, reward ")
    assert repr(evaluation) == "<Evaluation: score 1.0, 3 episodes of crafter, reward 1.0, length 1.0>"
    assert repr(crafter) == "<Crafter: crafter>"


def test_type_checkers_see_the_public_names_alone():
    for package in (envgen, envgen.worlds):
        tree = ast.parse(Path(package.__file__).read_text())
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert "__getattr__" not in functions  # type checkers would accept any name
    assert "from_gymnasium" in dir(envgen.worlds)
