"""The recipe for many GPUs is one that accelerate reads as it is meant."""

from pathlib import Path

import pytest
import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env
from transformers import Qwen2Config, Qwen2ForCausalLM

import envgen.coevolve

RECIPE = Path(envgen.coevolve.__file__).parent / "launch" / "fsdp.yaml"


@pytest.fixture
def launched(monkeypatch):
    """The environment that accelerate gives to each process."""
    command = ["--config_file", str(RECIPE), "--num_processes", "8", "-m", "envgen.cli", "coevolve", "tools"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(command))
    assert args.num_processes == 8
    assert args.use_fsdp
    found = prepare_multi_gpu_env(args)
    for name, value in found.items():
        if name.startswith(("FSDP_", "ACCELERATE_")):
            monkeypatch.setenv(name, value)
    return found


def test_it_says_bfloat16_and_the_second_version_of_fsdp(launched):
    assert launched["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert launched["ACCELERATE_USE_FSDP"] == "true"
    assert launched["FSDP_VERSION"] == "2"


def test_from_it_comes_a_plugin_that_shards_the_blocks_of_the_model(launched):
    plugin = FullyShardedDataParallelPlugin()
    plugin.set_mixed_precision("bf16")
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward
    assert plugin.mixed_precision_policy.param_dtype == torch.bfloat16
    assert not plugin.activation_checkpointing  # a cache rules it out
    assert not plugin.cpu_ram_efficient_loading  # the reference is a copy of what each process has loaded
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=32, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2)
    )
    plugin.set_auto_wrap_policy(model)
    blocks = plugin.auto_wrap_policy.keywords["transformer_layer_cls"]
    assert {block.__name__ for block in blocks} == {"Qwen2DecoderLayer"}
