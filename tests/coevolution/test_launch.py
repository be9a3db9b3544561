"""How processes that train language models start: accelerate reads the configuration for several GPUs as intended."""

import signal
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env
from transformers import Qwen2Config, Qwen2ForCausalLM

import envgen.coevolution
from envgen.cli import main
from envgen.coevolution.processes import start_accelerator
from envgen.processes import ProcessGroupError
from lost_worker import assert_says_that_a_process_was_lost, run_two

CONFIG = Path(envgen.coevolution.__file__).parent / "launch" / "fsdp.yaml"


@pytest.fixture
def launch_environment(monkeypatch):
    """The environment variables that accelerate sets for each process."""
    command = ["--config_file", str(CONFIG), "--num_processes", "8", "-m", "envgen", "coevolve", "tools"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(command))
    assert args.num_processes == 8
    assert args.use_fsdp
    environment = prepare_multi_gpu_env(args)
    for name, value in environment.items():
        if name.startswith(("FSDP_", "ACCELERATE_")):
            monkeypatch.setenv(name, value)
    return environment


def test_config_selects_bfloat16_and_fsdp2(launch_environment):
    assert launch_environment["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert launch_environment["ACCELERATE_USE_FSDP"] == "true"
    assert launch_environment["FSDP_VERSION"] == "2"


def test_config_shards_the_transformer_blocks(launch_environment):
    plugin = FullyShardedDataParallelPlugin()
    plugin.set_mixed_precision("bf16")
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward
    assert plugin.mixed_precision_policy.param_dtype == torch.bfloat16
    assert not plugin.activation_checkpointing  # incompatible with the KV cache of prompts
    assert not plugin.cpu_ram_efficient_loading  # the reference model is a copy of what each process loaded
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=32, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2)
    )
    plugin.set_auto_wrap_policy(model)
    blocks = plugin.auto_wrap_policy.keywords["transformer_layer_cls"]
    assert {block.__name__ for block in blocks} == {"Qwen2DecoderLayer"}


def test_supported_settings_start(launch_environment, monkeypatch):
    for name in ("ACCELERATE_USE_FSDP", "ACCELERATE_MIXED_PRECISION"):  # without GPUs
        monkeypatch.delenv(name)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert start_accelerator().num_processes == 1


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ACCELERATE_USE_DEEPSPEED", "true", "DeepSpeed is not supported, but ACCELERATE_USE_DEEPSPEED or the"),
        ("ACCELERATE_USE_MEGATRON_LM", "True", "Megatron-LM is not supported, but ACCELERATE_USE_MEGATRON_LM or the"),
        ("ACCELERATE_MIXED_PRECISION", "fp16", "mixed precision in fp16 is not supported"),
        ("ACCELERATE_MIXED_PRECISION", "fp8", "mixed precision in fp8 is not supported"),
    ],
)
def test_unsupported_settings_of_accelerate_are_refused(variable, value, message, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr("sys.argv", ["envgen", "coevolve", "--folder", str(tmp_path / "run"), "--quiet"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"envgen: {message}")
    assert not (tmp_path / "run").exists()


def test_processes_that_accelerate_does_not_join_are_refused(monkeypatch):
    Accelerator()  # before, and in this process alone
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ProcessGroupError, match="WORLD_SIZE is 2, but the number of processes of accelerate is 1, on"):
        start_accelerator()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_that_loses_a_process_ends_in_one_sentence(models, tmp_path, rank):
    agent, environment = map(str, models)
    options = ["--rollouts", "800", "--tasks-per-step", "6", "--num-base-tasks", "8", "--num-eval-tasks", "7",
               "--agent.num-generations", "4", "--agent.max-new-tokens", "4", "--environment.max-new-tokens", "48",
               "--folder", "run", "--quiet"]  # fmt: skip
    codes, errors = run_two(
        tmp_path, "die", rank, ["coevolve", "toy:Toy", "--agent", agent, "--environment", environment, *options]
    )
    assert codes[rank] == -signal.SIGKILL, errors
    assert codes[1 - rank] == 2, errors
    assert_says_that_a_process_was_lost(errors[1 - rank])
