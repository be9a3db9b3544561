"""What the environment policy is asked for, and which earlier specs it learns from."""

import numpy as np
import pytest
from test_update_batches import RecordingPolicy, decode
from toy import Toy, ToySpec

from envgen.coevolution.environment import LanguageModelProposer
from envgen.coevolution.proposers import Candidate, ProposalBatch
from envgen.coevolution.reward import SuccessStats
from envgen.coevolution.sampling import Completions
from envgen.coevolution.settings import AlphaCurriculumSettings, EnvironmentSettings
from envgen.coevolution.task_stores import TaskFilter, TaskStore

SPECS = [ToySpec(which=1, letters=letter) for letter in "abcdefgh"]


class WritingPolicy(RecordingPolicy):
    """Writes the same specs for each prompt, and records the prompts."""

    def __init__(self, *texts: str):
        super().__init__()
        self.texts, self.prompts = texts, []
        self.lm.decode = decode

    def generate(self, prompts, num_generations):
        self.prompts += map(decode, prompts)
        tokens = [list(map(ord, text)) for text in self.texts]
        assert len(tokens) == len(prompts) * num_generations
        return Completions.from_token_lists(tokens, 0)


def make_proposer(policy, method="none", store=None, num_variations=1, **curriculum) -> LanguageModelProposer:
    return LanguageModelProposer(
        Toy(), policy, method, EnvironmentSettings(), AlphaCurriculumSettings(**curriculum), store, num_variations,
        max_attempts=1, seed=0,
    )  # fmt: skip


@pytest.mark.parametrize(("alpha", "tenths"), [(0.5, 5), (0.8, 8), (0.25, 3), (0.0, 0), (1.0, 10)])
def test_the_prompt_names_the_target_success_rate(alpha, tenths):
    stats = SuccessStats()
    stats.add({"which": "2"}, successes=6.0, replies=8)
    policy = WritingPolicy(SPECS[0].text)
    proposals = make_proposer(policy, alpha=alpha).propose(1, [SPECS[1]], stats, TaskFilter(Toy(), ()))
    prompt = f"aim {tenths}; which 2:8; like {SPECS[1].text}"
    assert policy.prompts == list(proposals.prompts) == [prompt]
    assert [candidate.text for candidate in proposals.accepted] == [SPECS[0].text]


def test_replayed_specs_are_those_of_earlier_updates(tmp_path):
    policy, store = RecordingPolicy(), TaskStore(tmp_path / "environment_specs.jsonl")
    proposer = make_proposer(policy, "rwr", store, filter_tolerance=None)
    earlier: set[str] = set()
    for start, num_replayed in ((0, 0), (2, 2), (4, 2), (6, 2)):
        tasks = [Toy().make_task(spec) for spec in SPECS[start : start + 2]]
        candidates = tuple(Candidate(task.spec.text, "genenv", k, 0, task) for k, task in enumerate(tasks))
        fresh = [candidate.text for candidate in candidates]
        metrics = proposer.update(ProposalBatch(candidates, prompts=("prompt",)), {0: 0.5, 1: 0.5})
        batch, _ = policy.batches[-1]
        texts = [decode(ids[mask]) for ids, mask in zip(batch.completions.ids, batch.completions.mask, strict=True)]
        assert texts[:2] == fresh
        assert len(texts) == metrics["num_specs"] == 2 + num_replayed
        assert set(texts[2:]) <= earlier
        np.testing.assert_allclose(batch.advantages, 1.0)  # all have the same reward
        earlier.update(fresh)
