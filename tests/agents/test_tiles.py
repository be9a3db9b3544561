"""The encoder for images made of tiles: equal to plain PyTorch operations, and fit for Crafter's images."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import nn
from torch.nn import functional as F

from envgen.agents.errors import SpaceError
from envgen.agents.networks import PolicyNetwork, make_distribution
from envgen.agents.ppo import PPO
from envgen.agents.rollout import VecEnvRunner
from envgen.agents.settings import NetworkSettings, PpoSettings
from envgen.agents.tiles import (
    TileEncoder,
    TileLayers,
    find_distinct_tiles,
    pool_distinct_tiles,
    pool_tiles,
    repeat_rows,
)
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.heist.env import HeistVectorEnv
from envgen.worlds.world import TileGrid

GRID = TileGrid(height=4, width=5, top=2, left=1, rows=3, columns=2, agent=3)  # right of the middle row
SPACE = spaces.Box(0, 255, (15, 12, 3), np.uint8)


def random_images(count: int, shape: tuple[int, ...] = SPACE.shape) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8))


def make_encoder() -> TileEncoder:
    torch.manual_seed(0)
    encoder = TileEncoder(SPACE, GRID, tile_hidden=12, tile_width=6, unpooled_width=3, hidden=20, width=10)
    for parameter in encoder.parameters():  # also biases and norms
        nn.init.normal_(parameter, 0.1, 0.5)
    return encoder


def reference_features(encoder: TileEncoder, images: torch.Tensor) -> torch.Tensor:
    """The encoder as one would write it: unfold the image, a linear layer over its tiles, and so on."""
    grid, layers = encoder.tile_grid, encoder.tiles
    image = images[:, grid.top :, grid.left :].permute(0, 3, 1, 2).float() / 255
    image = image[:, :, : grid.rows * grid.height, : grid.columns * grid.width]
    tiles = F.unfold(image, (grid.height, grid.width), stride=(grid.height, grid.width))  # (B, C * h * w, tiles)
    tiles = tiles.unflatten(1, (3, grid.height * grid.width)).permute(0, 3, 2, 1).flatten(2)  # (B, tiles, h * w * C)
    hidden = F.relu(layers.linear1(tiles))
    features = F.relu(layers.linear2(hidden)).unflatten(1, (grid.rows, grid.columns))
    unpooled, columns, rows = features[..., : encoder.unpooled_width], features.amax(1), features.amax(2)
    neighbors = torch.stack([features[:, 1, 0], features[:, 0, 1], features[:, 2, 1]], 1)  # left, above, below
    weights = encoder.attention.logits(features[:, 1, 1]).unflatten(1, (4, 3)).softmax(-1)
    attended = torch.einsum("bhn,bnw->bhw", weights, neighbors)
    features = torch.cat([part.flatten(1) for part in (unpooled, columns, rows, attended)], 1)
    return F.relu(encoder.norm2(encoder.dense2(F.relu(encoder.norm1(encoder.dense1(features))))))


def grads_of(out: torch.Tensor, encoder: nn.Module) -> dict[str, torch.Tensor]:
    grad_out = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    parameters = dict(encoder.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(out, list(parameters.values()), grad_out), strict=True))


def test_features_and_gradients_equal_those_of_plain_layers():
    encoder, images = make_encoder(), random_images(50)
    images[10:30, 2:6] = images[0, 2:6]  # some tiles occur many times
    out, expected = encoder(images), reference_features(encoder, images)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    grads, expected_grads = grads_of(out, encoder), grads_of(expected, encoder)
    assert len(grads) == 14
    for name, grad in grads.items():
        scale = expected_grads[name].abs().max().item()
        torch.testing.assert_close(
            grad, expected_grads[name], rtol=1e-3, atol=1e-4 * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_without_the_agents_tile_there_is_no_attention():
    encoder = TileEncoder(SPACE, GRID._replace(agent=None))
    assert encoder.attention is None
    assert encoder(random_images(3)).shape == (3, 256)


def test_attention_finds_the_faced_tile_of_crafter():
    """The agent's tile is the one that changes with the direction that the player faces."""
    envs = CrafterVectorEnv(4, {"zombies": "none", "cows": "none"}, "pixels")
    grid = envs.metadata["tile_grid"]
    envs.reset(seed=[0, 0, 0, 0])
    obs, *_ = envs.step(np.array([1, 2, 3, 4]))  # left, right, up, down; on grass, the player moves
    encoder = TileEncoder(envs.single_observation_space, grid)
    tiles = encoder.prepare(torch.from_numpy(obs))
    assert len(np.unique(tiles[:, grid.agent].numpy(), axis=0)) == 4
    row, column = divmod(grid.agent, grid.columns)
    expected = [row * 9 + column - 1, row * 9 + column + 1, (row - 1) * 9 + column, (row + 1) * 9 + column]
    assert encoder.attention.indices.tolist() == [grid.agent, *expected]


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_actions_do_not_depend_on_the_number_of_threads(memory):
    envs = CrafterVectorEnv(5, observation="pixels")
    network = NetworkSettings(encoder="tiles", memory=memory)
    settings = PpoSettings(num_envs=5, num_steps=8, num_minibatches=2, update_epochs=1, network=network)
    weights = []
    num_threads = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            learner = PPO.for_envs(envs, settings)
            assert learner.network.acts_in_chunks
            learner.train(envs, 5 * 16, seed=0)
            weights.append(torch.cat([p.detach().flatten() for p in learner.network.parameters()]))
    finally:
        torch.set_num_threads(num_threads)
    assert torch.equal(*weights)


def test_bfloat16_changes_features_and_gradients_little():
    layers, tiles = make_encoder().tiles, random_images(256, (64,))
    exact = layers(tiles)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        rounded = layers(tiles)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.05 * exact.abs().max().item())
    grads, exact_grads = grads_of(rounded.float(), layers), grads_of(exact, layers)
    for name, grad in grads.items():
        cosine = F.cosine_similarity(grad.flatten(), exact_grads[name].flatten(), 0)
        assert cosine > 0.99, f"{name}: {cosine}"


def test_padding_in_bfloat16_changes_no_features_or_gradients(monkeypatch):
    encoder, images, results, num_rows = make_encoder(), random_images(18), {}, []  # 108 different tiles
    encoder.tiles.register_forward_hook(lambda module, inputs, outputs: num_rows.append(len(outputs)))
    for name in ("padded", "exact"):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            out = encoder(images).float()
        results[name] = {"out": out, **grads_of(out, encoder)}
        monkeypatch.setattr("envgen.agents.tiles.padded_size", lambda size: size)
    assert num_rows == [112, 108]
    for name, tensor in results["exact"].items():
        difference = (results["padded"][name] - tensor).norm() / tensor.norm()
        assert difference < 0.01, f"{name}: {difference}"


def test_other_devices_compute_the_same_as_the_kernels(monkeypatch):
    """Hiding the CPU's name selects the code path of other devices."""
    encoder, images = make_encoder(), random_images(20)
    out = encoder(images)
    grads = grads_of(out, encoder)
    monkeypatch.setattr("envgen.agents.tiles.CPU", "none")
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)
    assert encoder.prepare(images).shape == (20, 6, 64)
    unfused = encoder(images)
    torch.testing.assert_close(out, unfused, rtol=1e-4, atol=1e-4)
    for name, grad in grads_of(unfused, encoder).items():
        torch.testing.assert_close(grads[name], grad, rtol=1e-3, atol=1e-3 * grad.abs().max().item())


def test_empty_batches_have_features_and_gradients():
    encoder = make_encoder()
    out = encoder(random_images(0))
    assert out.shape == (0, 10)
    assert all(grad.abs().sum() == 0 for grad in torch.autograd.grad(out.sum(), list(encoder.parameters())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("unpooled_width", [0, 2, 5])
def test_pooling_and_its_gradients_equal_those_of_plain_operations(dtype, unpooled_width):
    """No two features of an image are equal: PyTorch shares the gradient among equal maxima."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randperm(8 * 5, generator=generator).view(8, 5).to(dtype).requires_grad_()
    index = torch.stack([torch.randperm(8, generator=generator)[:6].view(2, 3) for _ in range(4)])
    attended = torch.randn((4, 3), generator=generator).to(dtype).requires_grad_()
    fused = pool_distinct_tiles(features, index, attended, unpooled_width)
    plain = torch.cat([pool_tiles(features[index], unpooled_width), attended], 1)
    assert torch.equal(fused, plain)
    grad_out = torch.randn(plain.shape, generator=generator).to(dtype)
    exact = features.detach().float().requires_grad_()  # in which sums over images are not rounded
    plain = torch.cat([pool_tiles(exact[index], unpooled_width), attended.float()], 1)
    grads = torch.autograd.grad(fused, (features, attended), grad_out)
    expected_grads = torch.autograd.grad(plain, (exact, attended), grad_out.float())
    for grad, expected in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected.to(dtype))


def test_the_gradient_of_equal_maxima_goes_to_one_of_them():
    features, attended = torch.ones(6, 1, requires_grad=True), torch.empty(1, 0)
    pooled = pool_distinct_tiles(features, torch.arange(6).view(1, 2, 3), attended, 0)
    assert torch.autograd.grad(pooled.sum(), features)[0].flatten().tolist() == [2, 1, 1, 1, 0, 0]
    pooled = pool_distinct_tiles(features, torch.zeros((1, 2, 3), dtype=torch.int64), attended, 1)
    assert torch.autograd.grad(pooled.sum(), features)[0].flatten().tolist() == [6 + 5, 0, 0, 0, 0, 0]


def test_equal_tiles_are_computed_once():
    distinct, copies = random_images(50, (64,)), np.random.default_rng(1).integers(0, 50, 400)
    distinct[1:8] = distinct[0]
    distinct[1:8, -1] += torch.arange(1, 8, dtype=torch.uint8)  # nearly equal
    first, index = find_distinct_tiles(distinct[copies])
    assert len(first) == len(np.unique(copies))
    assert torch.equal(distinct[copies][first][index], distinct[copies])
    rows = torch.randn(len(first), 3, requires_grad=True)
    grad_out = torch.randn(400, 3)
    repeated, expected = repeat_rows(rows, index), rows[index]
    assert torch.equal(repeated, expected)
    grads = [torch.autograd.grad(out, rows, grad_out)[0] for out in (repeated, expected)]
    torch.testing.assert_close(*grads)


def test_bytes_after_the_tile_are_ignored():
    layers, tiles = TileLayers(30, 8, 4), random_images(10, (32,))
    changed = tiles.clone()
    changed[:, 30:] = 7
    assert torch.equal(layers(tiles), layers(changed))
    changed[:, 29] += 100
    assert not torch.equal(layers(tiles), layers(changed))


# --------------------------------------------------------------------------------------------------------- refusals


def test_images_without_a_grid_are_refused():
    heist = HeistVectorEnv(2, None, "pixels")
    with pytest.raises(SpaceError, match="requires images made of tiles"):
        TileEncoder(heist.single_observation_space, heist.metadata.get("tile_grid"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 4}, "cover the pixel rows 2 to 17 and columns 1 to 10 of an image with 15 rows and 12 columns"),
        ({"left": 3}, "columns 3 to 12"),
        ({"left": -1}, "columns -1 to 8"),
        ({"height": 0}, "must be at least 1"),
        ({"width": 2.5}, "TileGrid of integers"),
    ],
)
def test_grids_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(SpaceError, match=message):
        TileEncoder(SPACE, GRID._replace(**changes))


def test_spaces_without_images_are_refused():
    with pytest.raises(SpaceError, match="only images have tiles"):
        TileEncoder(spaces.Box(0, 9, (145,), np.uint8), GRID)


@pytest.mark.parametrize("images", [random_images(2, (15, 13, 3)), random_images(2).float()])
def test_observations_of_another_shape_or_type_are_refused(images):
    with pytest.raises(SpaceError, match=r"images must be uint8 of shape \(15, 12, 3\), not"):
        make_encoder()(images)


# ---------------------------------------------------------------------------------------------------------- Crafter


def crafter_encoder(size: int | tuple[int, int], **sizes: int) -> tuple[TileEncoder, torch.Tensor]:
    """An encoder and images of Crafter in mid-episode."""
    envs, rng = CrafterVectorEnv(4, None, "pixels", size=size), np.random.default_rng(0)
    obs, _ = envs.reset(seed=0)
    for _ in range(30):
        obs, *_ = envs.step(rng.integers(0, 17, 4))
    return TileEncoder(envs.single_observation_space, envs.metadata["tile_grid"], **sizes), torch.from_numpy(obs)


@pytest.mark.parametrize("size", [64, (100, 70)])
def test_each_pixel_of_crafter_belongs_to_the_tile_that_shows_its_cell(size):
    encoder, images = crafter_encoder(size, tile_hidden=8, tile_width=4, hidden=8, width=8)
    grid = encoder.tile_grid
    tiles = encoder.prepare(images)
    changed_pixels = np.zeros(images.shape[1:3], np.bool_)
    for tile in range(grid.rows * grid.columns):
        top, left = grid.top + tile // grid.columns * grid.height, grid.left + tile % grid.columns * grid.width
        changed = images.clone()
        changed[:, top : top + grid.height, left : left + grid.width] ^= 255
        differs = (encoder.prepare(changed) != tiles).any(0).any(1)  # (tiles,)
        assert differs.nonzero().flatten().tolist() == [tile]
        features = [encoder.tiles(t.flatten(0, 1)).view(4, -1, 4) for t in (tiles, encoder.prepare(changed))]
        unchanged = torch.arange(grid.rows * grid.columns) != tile
        assert torch.equal(features[0][:, unchanged], features[1][:, unchanged])
        changed_pixels[top : top + grid.height, left : left + grid.width] = True
    assert not images.numpy()[:, ~changed_pixels].any()  # what no tile covers is black


@pytest.mark.parametrize("size", [64, 99, (100, 70)])
def test_equal_cells_of_crafter_have_equal_tiles(size):
    """In daylight, a tile depends only on what its cell shows: the grid lies exactly on the renderer's cells."""
    symbols, pixels = (CrafterVectorEnv(128, None, kind, size=size) for kind in ("symbols", "pixels"))
    encoder = TileEncoder(pixels.single_observation_space, pixels.metadata["tile_grid"])
    cells, _ = symbols.reset(seed=0)
    images, _ = pixels.reset(seed=0)
    tiles = encoder.prepare(torch.from_numpy(images)).numpy()
    tiles_by_content: dict[tuple, bytes] = {}
    for i in range(128):
        for cell in range(63):
            if cell != 31:  # the player
                content = cells[i, cell], cells[i, 63 + cell]
                tile = tiles[i, cell].tobytes()
                assert tiles_by_content.setdefault(content, tile) == tile
    assert 5 < len(tiles_by_content) == len(set(tiles_by_content.values()))


# --------------------------------------------------------------------------------------------------------- learning


class TileNetwork(PolicyNetwork):
    """Two heads on a small TileEncoder."""

    def __init__(self, observation_space, action_space, layout=None):
        super().__init__()
        self.encoder = TileEncoder(observation_space, GRID, tile_hidden=16, tile_width=8, hidden=32, width=32)
        self.action_dist = make_distribution(action_space)
        self.policy_head, self.value_head = nn.Linear(32, self.action_dist.num_params), nn.Linear(32, 1)

    def prepare(self, obs, bits=None):
        return self.encoder.prepare(obs, bits)

    def forward_prepared(self, prepared):
        features = self.encoder.encode(prepared).float()
        return self.policy_head(features), self.value_head(features)[:, 0]


class BrightTileEnv(VectorEnv):
    """A vector environment of one-step episodes: the action must name the one bright tile among noisy ones."""

    single_observation_space, single_action_space = SPACE, spaces.Discrete(6)

    def __init__(self, num_envs: int):
        self.num_envs, self.rng = num_envs, np.random.default_rng(0)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def _observe(self) -> np.ndarray:
        images = self.rng.integers(0, 128, (self.num_envs, *SPACE.shape), np.uint8)
        self.targets = self.rng.integers(0, 6, self.num_envs)
        for image, target in zip(images, self.targets, strict=True):
            top, left = GRID.top + target // 2 * GRID.height, GRID.left + target % 2 * GRID.width
            image[top : top + GRID.height, left : left + GRID.width] += 100
        return images

    def reset(self, *, seed=None, options=None):
        return self._observe(), {}

    def step(self, actions):
        rewards, done = (actions == self.targets).astype(np.float64), np.ones(self.num_envs, np.bool_)
        return self._observe(), rewards, done, ~done, {}


def make_learner(num_envs: int) -> PPO:
    settings = PpoSettings(num_envs=num_envs, num_steps=8, num_minibatches=2, learning_rate=3e-3, ent_coef=0.0)
    return PPO(SPACE, spaces.Discrete(6), settings=settings, network_factory=TileNetwork)


def test_learns_which_tile_is_bright():
    returns = []
    make_learner(32).train(BrightTileEnv(32), 32 * 8 * 40, lambda result: returns.append(result.episodes.returns))
    assert np.mean(returns[0]) < 0.35
    assert np.mean(returns[-1]) > 0.9


def test_rollouts_keep_pixels_as_bytes():
    learner = make_learner(2)
    rollout = learner.collect(VecEnvRunner(BrightTileEnv(2)), 5)
    assert rollout.obs.dtype == torch.uint8
    assert rollout.obs.shape == (5, 2, 6, 64)
