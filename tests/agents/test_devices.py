"""What a device is used for is what it is good at, and memory that was freed is used again."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from envgen.agents.devices import multiplies_bfloat16
from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.worlds.crafter.vector import CrafterVectorEnv

CPU = torch.device("cpu")


def agent(bfloat16: bool | None) -> PPO:
    return PPO.for_envs(CrafterVectorEnv(1, None, "symbols"), settings=PpoSettings(num_envs=1, bfloat16=bfloat16))


def test_products_are_in_bfloat16_where_that_is_asked_for_or_the_device_is_made_for_it():
    assert agent(None).bfloat16 == multiplies_bfloat16(CPU)
    assert agent(True).bfloat16
    assert not agent(False).bfloat16


def test_bfloat16_changes_what_an_agent_computes_a_little_and_its_weights_stay_float32():
    envs = CrafterVectorEnv(4, None, "symbols")
    seen, _ = envs.reset(seed=0)
    values = {}
    for bfloat16 in (False, True):
        one = PPO.for_envs(
            envs, settings=PpoSettings(num_envs=4, num_steps=8, update_epochs=1, bfloat16=bfloat16), seed=0
        )
        with torch.inference_mode():
            values[bfloat16] = one._values(one._player(), seen)
        one.train(envs, 64, seed=0)
        assert {weights.dtype for weights in one.network.parameters()} == {torch.float32}
    assert not np.array_equal(values[False], values[True])
    np.testing.assert_allclose(values[True], values[False], atol=0.02)


def test_a_state_goes_on_in_the_precision_it_was_made_in(monkeypatch):
    made = {}
    for able in (True, False):
        monkeypatch.setattr("envgen.agents.ppo.multiplies_bfloat16", lambda device, able=able: able)
        made[able] = agent(None)
    made[False].load(*made[True].state())
    assert made[False].bfloat16


PROGRAM = """
import resource
import torch
from envgen.agents.devices import keep_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        [torch.ones(1 << 19) for _ in range(10)]  # 10 x 2 MB, 5,120 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
pages()
print(pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
def test_memory_of_tensors_is_not_fetched_anew_for_the_next():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 5120  # most often fifty times as many without
