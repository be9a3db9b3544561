"""PyTorch's global random numbers are the calling program's."""

import threading
from contextlib import suppress

import pytest
import torch

from envgen.rng import isolated_rng


def test_the_generator_is_seeded_and_restored():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    with suppress(KeyError), isolated_rng(5):
        assert torch.equal(torch.rand(3), expected)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("is_used", [True, False])
def test_those_of_gpus_are_restored_if_the_program_uses_them(is_used, monkeypatch):
    seeds = [1, 2] * is_used  # of GPUs, which few machines have

    def seed_all(seed: int) -> None:
        seeds[:] = [seed] * len(seeds)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_used)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seed_all)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: seeds[device])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda seed, device: seeds.__setitem__(device, seed))
    with isolated_rng(5):
        assert seeds == [5, 5] * is_used
    assert seeds == [1, 2] * is_used


def test_gpus_that_are_used_later_start_from_the_seed_of_the_program(monkeypatch):
    seeds = []  # the last one is used when CUDA is initialized
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    torch.manual_seed(7)
    with isolated_rng(5):
        assert seeds == [7, 5]
    assert seeds == [7, 5, 7]
    with isolated_rng():
        pass
    assert seeds == [7, 5, 7]


def test_other_threads_wait():
    entered = threading.Event()

    def enter() -> None:
        with isolated_rng(1):
            entered.set()

    thread = threading.Thread(target=enter)
    with isolated_rng(0):
        thread.start()
        assert not entered.wait(0.2)
    thread.join()
    assert entered.is_set()
