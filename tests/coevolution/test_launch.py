"""accelerate reads the configuration for several GPUs as intended."""

from pathlib import Path

import pytest
import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env
from transformers import Qwen2Config, Qwen2ForCausalLM

import envgen.coevolution

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
