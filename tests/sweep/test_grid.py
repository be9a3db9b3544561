"""From TOML files and flags to runs with names and options."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import tyro

from envgen.api import train
from envgen.cli.main import main
from envgen.cli.sweep import FILE_SETTINGS, _parse_options, check_run, split_args, without_unused_options
from envgen.errors import EnvgenError
from envgen.runs.store import FORMAT, read_request
from envgen.sweep.grid import MAX_NAME_CHARS, PlannedRun, SweepError, expand_range, parse_flags, read_toml
from envgen.sweep.settings import ENGINES

SETTINGS = ("folder", "engine", "budget")


def write(tmp_path, text):
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    return file


def read(tmp_path, text):
    return read_toml(write(tmp_path, text), SETTINGS)


def test_flags_with_several_values_span_a_grid():
    spec = parse_flags(["--designer", "none,expert", "--seed", "0:3", "--cycles", "2"], ["crafter"])
    runs = spec.planned_runs()
    assert [run.name for run in runs] == [
        f"designer={designer},seed={seed}" for designer in ("none", "expert") for seed in range(3)
    ]
    assert runs[4].args() == ["crafter", "--cycles", "2", "--designer", "expert", "--seed", "1"]


def test_worlds_and_nested_options_can_be_swept():
    spec = parse_flags(["--ppo.learning-rate", "1e-4,3e-4", "--ppo.num_envs=8"], ["crafter,heist"])
    assert [run.name for run in spec.planned_runs()] == [
        "world=crafter,ppo.learning-rate=1e-4", "world=crafter,ppo.learning-rate=3e-4",
        "world=heist,ppo.learning-rate=1e-4", "world=heist,ppo.learning-rate=3e-4",
    ]  # fmt: skip
    assert spec.planned_runs()[2].args() == ["heist", "--ppo.num-envs", "8", "--ppo.learning-rate", "1e-4"]


def test_flags_without_values_and_booleans_become_flags():
    runs = parse_flags(["--history", "--ppo.bfloat16", "true,false", "--log", "tensorboard", "wandb"]).planned_runs()
    assert [run.name for run in runs] == ["ppo.bfloat16=true", "ppo.bfloat16=false"]
    assert runs[1].args() == ["--history", "--log", "tensorboard", "wandb", "--ppo.no-bfloat16"]


def test_ranges_and_lists_can_be_mixed_and_negative_values_stay_values():
    runs = parse_flags(["--seed", "0:6:2,9", "--x=-1"]).planned_runs()
    assert [run.options["seed"] for run in runs] == ["0", "2", "4", "9"]
    assert runs[0].args() == ["--x=-1", "--seed", "0"]


def test_addresses_are_not_ranges():
    (run,) = parse_flags(["--llm", "openai:model", "--base-url", "http://localhost:8000/v1"]).planned_runs()
    assert run.name == "run"
    assert run.options == {"llm": "openai:model", "base-url": "http://localhost:8000/v1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "0,1,0"], "seed lists 0 2 times"),
        (["--seed", "0,,1"], "has an empty value"),
        (["--seed", "3:3"], "has 0 values; write FIRST:END"),
        (["--seed", "0:100000"], "has 100,000 values"),
        (["--seed", "0", "--seed", "1"], "--seed is given twice"),
        (["--folder", "out"], "--folder is not an option of the runs of a sweep: every run has a folder of its own"),
        (["--resume", "out"], "repeat the command of the sweep"),
    ],
)
def test_wrong_flags_are_named(words, message):
    with pytest.raises(SweepError, match=message):
        parse_flags(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "0,00"], "seed=0 and seed=00 have the same settings"),
        (
            ["--seed", "0:2", "--ppo.learning-rate", "1e-4,0.0001"],
            "seed=0,ppo.learning-rate=1e-4 and seed=0,ppo.learning-rate=0.0001 have",
        ),
        (["--cycles", "4,4.0"], "cycles=4 and cycles=4.0 have the same settings"),
    ],
)
def test_equal_numbers_that_are_written_differently_are_refused(words, message):
    with pytest.raises(SweepError, match=message):
        parse_flags(words).planned_runs()


def test_different_values_are_no_equal_numbers():
    words = ["--x", "1,true,nan,inf,1e-400,9007199254740993,9007199254740992", "--device", "cpu,cuda"]
    assert len(parse_flags(words).planned_runs()) == 14


@pytest.mark.parametrize("memory", ["1e300", "0", "1e-9", "nan"])
def test_the_memory_of_a_run_is_within_bounds(monkeypatch, capsys, memory):
    monkeypatch.setattr("sys.argv", ["envgen", "sweep", "crafter", "--memory-per-run", memory, "--dry-run"])
    with pytest.raises(SystemExit):
        main()
    assert "memory_per_run: Input should be" in capsys.readouterr().err


def test_a_grid_that_is_too_large_is_refused_before_it_is_built():
    with pytest.raises(SweepError, match="this sweep has 100,000,000 runs, more than 10,000"):
        parse_flags(["--seed", "0:10000", "--cycles", "0:10000"]).planned_runs()


def test_long_and_unsafe_values_make_short_safe_and_different_names():
    runs = parse_flags(["--llm", "a/b,a:b,../c," + "x" * 300]).planned_runs()
    names = [run.name for run in runs]
    assert len(set(names)) == 4
    assert names[2] == "llm=..-c"
    assert all("/" not in name and len(name) <= MAX_NAME_CHARS for name in names)


def test_names_that_differ_in_case_alone_are_made_different():
    names = [run.name for run in parse_flags(["--llm", "m:Foo,m:foo,m:bar"]).planned_runs()]
    assert len({name.lower() for name in names}) == 3
    assert names[2] == "llm=m-bar"


def test_windows_can_only_print_the_commands_of_a_sweep(tmp_path, monkeypatch, capsys):
    words = ["sweep", "crafter", "--seed", "0:2", "--folder", str(tmp_path / "sweep")]
    monkeypatch.setattr("envgen.cli.sweep.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr("sys.argv", ["envgen", *words, "--dry-run"])
    main()
    assert "seed=1: planned" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["envgen", *words])
    with pytest.raises(SystemExit):
        main()
    assert "sweeps need Linux or macOS" in capsys.readouterr().err


def test_a_file_has_a_base_a_grid_and_explicit_runs(tmp_path):
    spec = read(
        tmp_path,
        """
        folder = "out/x"
        engine = "ray"
        [base]
        world = "crafter"
        compile = false
        ppo.learning_rate = 1e-4
        log = ["tensorboard", "wandb"]
        [grid]
        designer = ["none", "expert"]
        seed = "0:2"
        [[runs]]
        designer = "alpha"
        "designer.alpha" = 0.3
        """,
    )
    runs = spec.planned_runs()
    assert [run.name for run in runs] == [
        "designer=none,seed=0", "designer=none,seed=1", "designer=expert,seed=0", "designer=expert,seed=1",
        "designer=alpha,designer.alpha=0.3",
    ]  # fmt: skip
    base = ["crafter", "--no-compile", "--ppo.learning-rate", "0.0001", "--log", "tensorboard", "wandb"]
    assert runs[1].args() == [*base, "--designer", "none", "--seed", "1"]
    assert runs[4].args() == [*base, "--designer", "alpha", "--designer.alpha", "0.3"]
    assert spec.settings == {"folder": "out/x", "engine": "ray"}


def test_a_file_can_have_several_grids(tmp_path):
    spec = read(
        tmp_path, '[[grid]]\ndesigner = ["none"]\nseed = [0, 1]\n[[grid]]\ndesigner = ["plr"]\ncycles = [2, 4]\n'
    )
    assert [run.name for run in spec.planned_runs()] == [
        "designer=none,seed=0", "designer=none,seed=1", "designer=plr,cycles=2", "designer=plr,cycles=4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grid]\nseed = 3\n", "seed in \\[grid\\] must be a list of values or a range such as '0:5', not 3"),
        ("[gird]\nseed = [3]\n", "'gird' is not one of .*did you mean 'grid'"),
        ("cycles = 3\n", "options of runs belong in \\[base\\] or \\[grid\\]"),
        ('command = "demo"\n', "command 'demo' is not one of train, coevolve"),
        ('command = ["train"]\n', "command .* is not one of train, coevolve"),
        ("[base]\nfolder = 'x'\n", "folder is not an option of the runs"),
        ("[base]\nseed = 2020-01-01\n", "seed must be a string, a number, true or false"),
        ("[runs]\nseed = 1\n", "runs must be written as \\[\\[runs\\]\\]"),
        ("[[runs]]\nseed = 1\n[[runs]]\nseed = 1\n", "2 runs of this sweep have the same options"),
        ("seed = [", "is not valid TOML"),
        ('[base]\n"ppo.num-envs" = 64\n[base.ppo]\nnum_envs = 32\n', "ppo.num-envs is given twice in a table"),
        ("[base]\nhistory = true\nno-history = true\n", "no-history, also as history, is given twice"),
    ],
)
def test_wrong_files_are_explained(tmp_path, text, message):
    with pytest.raises(SweepError, match=message):
        read(tmp_path, text).planned_runs()


def test_the_file_in_the_documentation_describes_valid_runs(tmp_path):
    docs = Path(__file__).parents[2] / "docs" / "sweeps.md"
    first, second = re.findall(r"```toml\n(.*?)```", docs.read_text(), re.DOTALL)
    runs = read_toml(write(tmp_path, first), FILE_SETTINGS).planned_runs()
    assert len(runs) == 2 * 5 + 1
    assert check_run(runs[-1])["designer"]["alpha"] == 0.3
    (run,) = (run for run in read_toml(write(tmp_path, second), FILE_SETTINGS).planned_runs()
              if run.name == "designer=accel,seed=4,original-share=0.2")  # fmt: skip
    assert check_run(run)["plan"]["original_share"] == 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cycles": "x"}, r"Error parsing --cycles: no type matching INT .*; see envgen train --help"),
        ({"cycls": "1"}, "Unrecognized options: --cycls, 1; see envgen train --help"),
        ({"designer": "expart"}, "did you mean 'expert'"),
        ({"ppo.gamma": "1.5"}, "gamma: Input should be less than or equal to 1"),
        ({"log": "foo"}, "foo"),
        ({"ppo.gamma": ("0.9", "0.95")}, r"Unrecognized options: 0.95; .*values separated by commas, or in \[grid\]"),
        ({"world": "heist", "observation": "text"}, "observation 'text' is not one of"),
    ],
)
def test_wrong_options_of_runs_are_one_sentence(options, message):
    with pytest.raises(EnvgenError, match=message) as error:
        check_run(PlannedRun("run", "train", options))
    assert "\n" not in str(error.value)


def test_the_request_of_a_run_is_the_one_that_the_run_records(tmp_path):
    options = {"designer": "none", "cycles": "0", "final-steps": "64", "episodes": "1", "ppo.num-envs": "4",
               "ppo.num-steps": "8", "history": True}  # fmt: skip
    run = train(designer="none", plan={"cycles": 0, "final_steps": 64, "episodes": 1}, network={"history": True},
                hyperparameters={"num_envs": 4, "num_steps": 8}, folder=tmp_path / "run", verbose=False)  # fmt: skip
    assert json.loads(json.dumps(check_run(PlannedRun("run", "train", options)))) == read_request(run.folder)[0]


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("train", {"designer": "accel", "designer.mutation-prob": "0.5", "observation": "pixels"}),
        ("train", {"designer": "llm", "llm": "openai:qwen3", "base-url": "http://localhost:1", "history": True}),
        ("train", {"learner-preset": "far", "practice.share": "0.3", "ppo.gamma": "0.97"}),
        ("coevolve", {"domain": "tools", "proposer": "uniform", "rollouts": "512", "pretrain.agent-steps": "10"}),
    ],
)
def test_runs_that_differ_only_in_their_seed_are_parsed_once(monkeypatch, command, options):
    plans = [PlannedRun("run", command, options | {"seed": seed}) for seed in ("3", "4", "5")]
    plans.append(PlannedRun("run", command, options))
    requests = [check_run(plan) for plan in plans]
    calls, parse = [], tyro.cli
    monkeypatch.setattr(tyro, "cli", lambda *args, **kwargs: calls.append(args) or parse(*args, **kwargs))
    parsed = {}
    assert [check_run(plan, parsed=parsed) for plan in plans] == requests
    assert len(calls) == 2  # the first seed, and the run without one
    assert [request["seed"] for request in requests] == [3, 4, 5, 0]


@pytest.mark.parametrize("seed", ["-1", "x", "1" * 30, "99999999999999999999"])
def test_a_wrong_seed_is_refused_after_a_run_that_differs_only_in_its_seed(seed):
    plans, parsed = [PlannedRun("run", "train", {"cycles": "1", "seed": value}) for value in ("0", seed)], {}
    check_run(plans[0], parsed=parsed)
    with pytest.raises(EnvgenError, match="seed"):
        check_run(plans[1], parsed=parsed)


def plan_pixels(device):
    return PlannedRun("run", "train", {"observation": "pixels", "device": device})


def test_the_request_of_a_run_on_another_machine_is_the_one_that_it_will_record(monkeypatch):
    request = check_run(plan_pixels("cuda:99"), has_device=False)
    assert request["learner"]["network"]["encoder"] == "impala"
    assert check_run(plan_pixels("cpu"))["learner"]["network"]["encoder"] == "tiles"
    monkeypatch.setattr("envgen.api.check_device", lambda *args: None)  # a machine that has the device
    monkeypatch.setattr("envgen.agents.ppo.local_device", lambda device: torch.device("cpu"))
    assert check_run(plan_pixels("cuda:99")) == request


def test_devices_that_are_missing_here_or_do_not_exist_are_refused():
    with pytest.raises(EnvgenError, match="device 'cuda:99' is not available"):
        check_run(plan_pixels("cuda:99"))
    with pytest.raises(EnvgenError, match="device 'cudaa' is not available"):
        check_run(plan_pixels("cudaa"), has_device=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_runs_on_this_machine_need_its_device(tmp_path, monkeypatch, capsys, engine):
    words = ["sweep", "crafter", "--seed", "0:2", "--device", "cuda:99", "--engine", engine, "--dry-run"]
    monkeypatch.setattr("sys.argv", ["envgen", *words, "--folder", str(tmp_path / "sweep")])
    if engine == "local":
        with pytest.raises(SystemExit):
            main()
        assert "the run seed=0: device 'cuda:99' is not available" in capsys.readouterr().err
    else:
        main()
        lines = capsys.readouterr().out.splitlines()
        command = lines[lines.index("seed=1: planned") + 1].split()
        assert command[:3] == ["envgen", "train", "crafter"]
        assert command[command.index("--seed") + 1] == "1"
        assert Path(command[command.index("--folder") + 1]).resolve() == tmp_path / "sweep" / "seed=1"
    assert not (tmp_path / "sweep").exists()


def test_options_of_the_sweep_and_of_its_runs_are_told_apart():
    own, of_runs = split_args(
        ["crafter", "--seed", "0:2", "--workers", "2", "--memory", "gru", "--budget.max-calls=3", "--history"]
    )
    assert own == ["crafter", "--workers", "2", "--budget.max-calls=3"]
    assert of_runs == ["--seed", "0:2", "--memory", "gru", "--history"]


def test_the_language_model_goes_to_the_runs_that_use_one():
    spec = parse_flags(
        ["--designer", "none,expert,llm,easy-to-hard", "--llm", "manual", "--max-calls", "3", "--cycles", "2"]
    )
    with_llm = {run.name: "llm" in run.options for run in without_unused_options(spec)}
    assert with_llm == {"designer=none": False, "designer=expert": False, "designer=llm": True,
                        "designer=easy-to-hard": True}  # fmt: skip
    assert "max-calls" not in without_unused_options(spec)[0].options
    nobody = parse_flags(["--designer", "none,expert", "--llm", "manual"])
    assert all("llm" in run.options for run in without_unused_options(nobody))  # which is then an error


@pytest.mark.parametrize("option", ["environment.learning-rate", "num-variations", "rwr-lambda"])
def test_the_options_of_the_environment_policy_go_to_the_runs_that_have_one(option):
    words = ["--proposer", "genenv,greedy", f"--{option}", "2", "--rollouts", "64"]
    with_option = {
        run.name: option in run.options for run in without_unused_options(parse_flags(words, command="coevolve"))
    }
    assert with_option == {"proposer=genenv": True, "proposer=greedy": False}
    nobody = parse_flags(["--proposer", "greedy,uniform", *words[2:]], command="coevolve")
    assert all(option in run.options for run in without_unused_options(nobody))  # an error later


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:5:0", "the step must be at least 1"),
        ("0:99999999999999999999", "numbers of more than 15 digits"),
        (f"0:{'9' * 5000}", "numbers of more than 15 digits"),
        ("0:999999999999999", "write FIRST:END"),
    ],
)
def test_wrong_ranges_are_explained(text, message):
    with pytest.raises(SweepError, match=message):
        expand_range("seed", text)


def test_a_deeply_nested_file_is_not_valid(tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 20_000)
    with pytest.raises(SweepError, match="is not valid TOML"):
        read_toml(tmp_path / "deep.toml", ())


@pytest.mark.parametrize(
    ("text", "value"),
    [("60", 60), ("-1", -1), ("0.5", 0.5), ("1e-3", 0.001), ("true", True), ("gpu", "gpu"), ("00123", "00123"),
     ("1_000", "1_000"), ("inf", "inf"), ("12:00:00", "12:00:00")],
)  # fmt: skip
def test_options_of_engines_are_numbers_only_if_they_are_written_as_such(text, value):
    option = _parse_options([f"name={text}"])["name"]
    assert (option, type(option)) == (value, type(value))


def test_negated_options_of_the_language_model_go_to_the_runs_that_use_one():
    spec = parse_flags(["--designer", "none,llm", "--llm", "manual", "--no-revise"], ["crafter"])
    none, llm = without_unused_options(spec)
    assert none.args() == ["crafter", "--designer", "none"]
    assert llm.args() == ["crafter", "--llm", "manual", "--no-revise", "--designer", "llm"]


def test_an_option_and_its_negation_are_refused():
    with pytest.raises(SweepError, match="--no-history contradicts --history"):
        parse_flags(["--history", "--no-history"])


def test_another_data_type_of_a_run_that_exists_is_refused_before_any_run_starts(tmp_path, monkeypatch, capsys):
    options = {"proposer": "greedy", "seed": "0"}
    entry = {"format": FORMAT, "request": check_run(PlannedRun("run", "coevolve", options)),
             "runtime_options": {"dtype": "float32"}}  # fmt: skip
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(entry))
    args = "sweep --command coevolve tools --proposer greedy --seed 0 --dtype bfloat16 --dry-run --folder"
    monkeypatch.setattr(sys, "argv", ["envgen", *args.split(), str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "was started with the data type float32, not bfloat16" in capsys.readouterr().err
