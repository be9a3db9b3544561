"""PPO in one file on envgen's Crafter, in the style of CleanRL: the environments alone, without envgen's learners.

python examples/cleanrl_crafter.py 1000000       # steps; 4096 by default
"""

import sys

import torch
from torch import nn

import envgen

NUM_ENVS, NUM_STEPS, EPOCHS, NUM_MINIBATCHES, GAMMA, GAE_LAMBDA, CLIP = 64, 32, 3, 4, 0.95, 0.65, 0.2


def main(total_steps: int) -> None:
    torch.manual_seed(0)
    envs = envgen.make_world("crafter").make(num_envs=NUM_ENVS, observation="symbols")
    body = nn.Sequential(nn.Linear(145, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    agent = nn.ModuleList([body, actor := nn.Linear(256, 17), critic := nn.Linear(256, 1)])
    optimizer = torch.optim.Adam(agent.parameters(), lr=7e-4)
    shape = (NUM_STEPS, NUM_ENVS)
    obs, actions = torch.zeros(*shape, 145), torch.zeros(shape, dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))
    next_obs, next_done = torch.as_tensor(envs.reset(seed=0)[0]) / 10, torch.zeros(NUM_ENVS)
    for update in range(1, total_steps // (NUM_STEPS * NUM_ENVS) + 1):
        for t in range(NUM_STEPS):
            obs[t], dones[t] = next_obs, next_done
            with torch.no_grad():
                dist = torch.distributions.Categorical(logits=actor(body(next_obs)))
                actions[t], values[t] = dist.sample(), critic(body(next_obs)).squeeze(1)
                logprobs[t] = dist.log_prob(actions[t])
            observation, reward, terminated, truncated, _ = envs.step(actions[t].numpy())
            next_obs, rewards[t] = torch.as_tensor(observation) / 10, torch.as_tensor(reward)
            next_done = torch.as_tensor(terminated | truncated).float()
        with torch.no_grad():
            advantages, next_value, last = torch.zeros(shape), critic(body(next_obs)).squeeze(1), 0.0
            for t in reversed(range(NUM_STEPS)):
                nonterminal = 1 - (next_done if t == NUM_STEPS - 1 else dones[t + 1])
                delta = rewards[t] + GAMMA * next_value * nonterminal - values[t]
                advantages[t] = last = delta + GAMMA * GAE_LAMBDA * nonterminal * last
                next_value = values[t]
        batch = [x.flatten(0, 1) for x in (obs, actions, logprobs, advantages, advantages + values)]
        for indices in (i for _ in range(EPOCHS) for i in torch.randperm(len(batch[0])).chunk(NUM_MINIBATCHES)):
            b_obs, b_actions, b_logprobs, b_advantages, b_returns = (x[indices] for x in batch)
            dist = torch.distributions.Categorical(logits=actor(body(b_obs)))
            ratio = (dist.log_prob(b_actions) - b_logprobs).exp()
            b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
            loss = -torch.min(b_advantages * ratio, b_advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            loss += 0.25 * (critic(body(b_obs)).squeeze(1) - b_returns).square().mean() - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        print(f"{update * NUM_STEPS * NUM_ENVS:,} steps: reward per step {rewards.mean():.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4096)
