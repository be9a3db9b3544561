"""What the agent and the environment policy learn from: advantages, weights and the rows that they belong to."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy import Toy, ToySpec

from envgen.coevolution.environment import NOT_NEEDED, LanguageModelProposer
from envgen.coevolution.loop import AgentPolicy, Coevolution, RolloutBatch, StepTask
from envgen.coevolution.proposers import Candidate, ProposalBatch
from envgen.coevolution.sampling import Completions
from envgen.coevolution.settings import AgentSettings, AlphaCurriculumSettings, EnvironmentSettings

BETA = 4.0
PROMPTS = ("first", "second")
SPECS = [ToySpec(which=1, letters=letter) for letter in "abcdefgh"]


class RecordingPolicy:
    """Records the batches of its updates. Texts are encoded as their characters."""

    def __init__(self):
        self.lm = SimpleNamespace(encode_prompt=lambda _, text: list(map(ord, text)), pad_token_id=0,
                                  encode_completion=lambda text: list(map(ord, text)))  # fmt: skip
        self.batches = []

    def update(self, batch, loss):
        self.batches.append((batch, loss))
        return {}


def decode(tokens) -> str:
    return "".join(map(chr, tokens))


def make_candidate(index: int, group: int, rejection=None) -> Candidate:
    task = None if rejection else Toy().make_task(SPECS[index])
    return Candidate(SPECS[index].text, "genenv", index, group, task, rejection)


def make_proposer(method: str, store=None, **curriculum) -> tuple[LanguageModelProposer, RecordingPolicy]:
    policy = RecordingPolicy()
    settings = AlphaCurriculumSettings(beta=BETA, **curriculum)
    proposer = LanguageModelProposer(
        Toy(), policy, method, EnvironmentSettings(), settings, store, num_variations=4, max_attempts=1, seed=0  # pyright: ignore
    )  # fmt: skip
    return proposer, policy


def test_grpo_of_the_environment_policy_compares_the_specs_of_a_prompt():
    candidates = (
        make_candidate(0, 0), make_candidate(1, 0), make_candidate(2, 0, "duplicate"), make_candidate(3, 0, NOT_NEEDED),
        make_candidate(4, 1, "malformed"), make_candidate(5, 1), make_candidate(6, 1, NOT_NEEDED),
        make_candidate(7, 1, NOT_NEEDED),
    )  # fmt: skip
    completions = Completions(torch.ones((8, 3), dtype=torch.long), torch.ones((8, 3), dtype=torch.bool))
    proposer, policy = make_proposer("grpo")
    metrics = proposer.update(
        ProposalBatch(candidates, prompts=PROMPTS, completions=completions), {0: 0.5, 1: 1.0, 5: 0.75}
    )
    ((batch, loss),) = policy.batches
    first, second = np.array([1.0, np.exp(-BETA * 0.25), 0.0]), np.array([0.0, np.exp(-BETA * 0.0625)])
    expected = np.zeros(8)
    expected[[0, 1, 2]] = (first - first.mean()) / (first.std(ddof=1) + 1e-4)
    expected[[4, 5]] = (second - second.mean()) / (second.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(batch.advantages, expected, rtol=1e-5)
    assert expected[0] > 0 > expected[2]
    assert batch.completions.mask.all(1).tolist() == [True, True, True, False, True, True, False, False]
    assert not batch.completions.mask[[3, 6, 7]].any()
    assert [decode(prompt) for prompt in batch.prompts] == list(PROMPTS)
    assert (batch.num_generations, loss, metrics) == (4, "ppo_clip", {"num_specs": 5.0})


def test_reward_weighted_regression_learns_specs_near_the_target_and_replayed_ones():
    class Store:
        added, requested = (), None

        def sample(self, count, rng):
            self.requested = count
            return [{"prompt": "earlier", "spec": "old", "reward": 0.2}]

        def add(self, records, key):
            self.added = list(records)
            assert len({key(record) for record in self.added}) == len(self.added)

    store = Store()
    proposer, policy = make_proposer("rwr", store, filter_tolerance=0.2, rwr_lambda=2.0)
    candidates = make_candidate(0, 1), make_candidate(1, 0), make_candidate(2, 0), make_candidate(3, 0, "duplicate")
    metrics = proposer.update(ProposalBatch(candidates, prompts=PROMPTS), {0: 0.5, 1: 0.375, 2: 1.0})
    ((batch, loss),) = policy.batches
    rewards = np.array([1.0, np.exp(-BETA * 0.125**2), 0.2])
    weights = np.exp(2.0 * rewards)
    np.testing.assert_allclose(batch.advantages, weights / weights.mean(), rtol=1e-5)
    assert [decode(prompt) for prompt in batch.prompts] == ["second", "first", "earlier"]
    texts = [decode(ids[mask]) for ids, mask in zip(batch.completions.ids, batch.completions.mask, strict=True)]
    assert texts == [SPECS[0].text, SPECS[1].text, "old"]
    assert [record["spec"] for record in store.added] == texts[:2]
    assert store.requested == round(proposer.settings.replay_ratio * 2)
    assert (batch.num_generations, loss, metrics) == (1, "weighted_nll", {"num_specs": 3.0})


def test_success_rates_belong_to_the_candidates_of_the_proposer():
    tasks = [Toy().make_task(spec) for spec in SPECS]
    steps = [
        StepTask(tasks[0], "proposer", make_candidate(3, 0)), StepTask(tasks[1], "proposer", make_candidate(1, 0)),
        StepTask(tasks[2], "fallback"), StepTask(tasks[3], "proposer", make_candidate(2, 1)),
        StepTask(tasks[4], "replay"),
    ]  # fmt: skip
    scores = np.array([[1, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], float)
    rollouts = SimpleNamespace(scores=scores)
    coevolution = Coevolution.__new__(Coevolution)
    coevolution.curriculum = AlphaCurriculumSettings()
    assert coevolution._proposer_success_rates(steps, rollouts) == {3: 1.0, 1: 0.25, 2: 0.5}  # pyright: ignore
    coevolution.curriculum = AlphaCurriculumSettings(success_over="group")
    assert coevolution._proposer_success_rates(steps, rollouts) == {3: 0.625, 1: 0.625, 2: 0.5}  # pyright: ignore


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({"loss_agg": "token"}, 4 / 10),  # of the tokens, those of groups with a gradient
        ({"loss_agg": "sequence"}, 1 / 2),
        ({"zero_variance_groups": "drop"}, 1.0),
        ({"zero_variance_groups": "drop", "kl_coef": 0.1}, 1.0),
        ({"zero_variance_groups": "refill"}, 1.0),
        ({"kl_coef": 0.1}, None),  # flat groups have a gradient, too
    ],
)
def test_groups_without_variance_count_in_the_mean_if_they_are_kept(changes, share):
    """The first task has equal scores and longer completions."""
    tasks = [Toy().make_task(spec) for spec in SPECS[:2]]
    lengths = torch.tensor([3, 3, 2, 2])
    completions = Completions(torch.ones((4, 3), dtype=torch.long), torch.arange(3) < lengths[:, None])
    scores, valid = np.array([[1.0, 1.0], [0.0, 1.0]]), np.ones((2, 2), bool)
    prompts = [list(map(ord, task.prompt)) for task in tasks]
    rollouts = RolloutBatch(tasks, prompts, completions, ["x"] * 4, scores, valid)
    policy = RecordingPolicy()
    AgentPolicy(Toy(), policy, AgentSettings(num_generations=2, scale_rewards=False, **changes)).update([rollouts])  # pyright: ignore
    ((batch, _),) = policy.batches
    if share is None:
        np.testing.assert_allclose(batch.advantages, [0, 0, -0.5, 0.5])
        assert [decode(prompt) for prompt in batch.prompts] == [task.prompt for task in tasks]
    else:
        np.testing.assert_allclose(batch.advantages, np.array([-0.5, 0.5]) * share, rtol=1e-6)
        assert [decode(prompt) for prompt in batch.prompts] == [tasks[1].prompt]
        assert batch.completions.mask.sum(1).tolist() == [2, 2]
