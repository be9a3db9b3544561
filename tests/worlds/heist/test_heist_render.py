"""Heist's images: those of the reference pixel for pixel, our own textures, and high-resolution images for display."""

import importlib.util
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from heist_scenes import digest, make_scene
from PIL import Image

from envgen.worlds.heist import constants as const
from envgen.worlds.heist import render, state, textures
from envgen.worlds.heist.engine import Engine
from envgen.worlds.heist.level import HeistLevel, HeldKeys, OpenDoors
from envgen.worlds.heist.world import Heist

RECORDED = json.loads(Path(__file__).with_name("images.json").read_text())
OUR_DIGEST = "4360700ba14d0d34"
KINDS = {"key": const.ENTITY_KEY, "door": const.ENTITY_DOOR, "gem": const.ENTITY_GEM}
CENTER = 4.5


def env_of(scene):
    """A scene as the only environment of an array of records."""
    envs, size = state.allocate(1), scene["world_size"]
    env = envs[0]
    env["mode"], env["world_size"] = const.MEMORY if scene["memory"] else const.HARD, size
    env["background"] = scene["background"]
    env["grid"][:size, :size] = np.where(scene["walls"], const.WALL, const.FLOOR)
    for row, (kind, color, x, y, rx, ry) in enumerate(scene["entities"]):
        env["entities"][row] = (x, y, rx, ry, KINDS[kind], color, 1)
    env["num_entities"] = len(scene["entities"])
    env["x"], env["y"], env["facing"] = scene["x"], scene["y"], scene["facing"]
    dx, dy = scene["facing"] // 3 - 1, scene["facing"] % 3 - 1
    env["rotation"] = -np.arctan2(dy, dx)
    env["num_key_slots"], env["has_key"][: scene["num_key_slots"]] = scene["num_key_slots"], scene["has_key"]
    env["needs_redraw"] = 1
    return envs


def start_episode(level, seed):
    engine = Engine(1, [HeistLevel.parse(level)], False, threads=1)
    engine.start([seed])
    return engine.envs[0]


def render_scene(envs, atlas=None, buffers=None):
    frame = np.zeros(render.FRAME_BYTES, np.uint8)
    buffers = buffers or render.allocate_buffers(1, 1)
    render.render_frame(envs[0], atlas or textures.load_atlas(), buffers, 0, 0, frame)
    return frame.reshape(64, 64, 3)


def empty_scene(**changes):
    """An empty world of the easy size with the agent in its center."""
    walls = np.zeros((9, 9), np.bool_)
    scene = dict(memory=False, world_size=9, background=0, walls=walls, entities=[], facing=const.NOOP)
    return scene | dict(x=CENTER, y=CENTER, num_key_slots=0, has_key=[]) | changes


def test_procgen_textures_match_the_reference_pixel_for_pixel():
    """Worlds of 5 to 25 cells, both cameras, all floors and none, every direction, entities anywhere, held keys."""
    try:
        atlas = textures.load_atlas("procgen")
    except textures.MissingTexturesError as error:
        pytest.skip(str(error))
    digests = [digest(render_scene(env_of(make_scene(k)), atlas)) for k in range(len(RECORDED["original"]))]
    assert digests == RECORDED["original"]


def test_our_textures_are_unchanged():
    frames = [render_scene(env_of(make_scene(k))) for k in range(len(RECORDED["original"]))]
    assert digest(frames) == OUR_DIGEST, "this changes what agents learn from pixels: is it intended?"


def test_cached_frames_equal_freshly_drawn_ones():
    for k in range(0, 60, 3):
        buffers, envs = render.allocate_buffers(1, 1), env_of(make_scene(k))
        first = render_scene(envs, buffers=buffers)
        assert envs["needs_redraw"][0] == 0
        envs["x"], envs["y"], envs["facing"] = 2.2, 3.3, k % 9
        after_move = render_scene(envs, buffers=buffers)
        envs["entities"]["alive"][0, 0], envs["needs_redraw"] = 0, 1
        after_removal = render_scene(envs, buffers=buffers)
        assert not np.array_equal(first, after_move)
        envs["entities"]["alive"][0, 0], envs["needs_redraw"] = 1, 1
        assert np.array_equal(render_scene(envs), after_move)
        envs["entities"]["alive"][0, 0], envs["needs_redraw"] = 0, 1
        assert np.array_equal(render_scene(envs), after_removal)


def test_memory_mode_shows_only_nearby_cells():
    walls = np.zeros((23, 23), np.bool_)
    near, far = walls.copy(), walls.copy()
    near[11, 15], far[11, 17] = True, True

    def draw_walls(walls, memory):
        return render_scene(env_of(empty_scene(world_size=23, x=11.5, y=11.5, memory=memory, walls=walls)))

    for memory in (True, False):
        plain = draw_walls(walls, memory)
        assert np.array_equal(plain, draw_walls(far, memory)) == memory
        assert not np.array_equal(plain, draw_walls(near, memory))


@pytest.mark.parametrize(("size", "memory"), [(9, False), (13, False), (23, True)])
def test_everything_is_distinguishable_on_every_floor(size, memory):
    center = size // 2 + 0.5
    contents = [("gem", 0), *(("key", c) for c in range(3)), *(("door", c) for c in range(3)), None, "wall"]
    unit = 64 / (8 if memory else size)
    for background in range(const.NUM_BACKGROUNDS):
        cells = []
        for content in contents:
            walls = np.zeros((size, size), np.bool_)
            scene = empty_scene(
                world_size=size, memory=memory, background=background, walls=walls, x=center - 2, y=center
            )
            if content == "wall":
                scene["walls"][size // 2, size // 2] = True
            elif content:
                box = (0.5, 0.5) if content[0] == "door" else (0.375, 0.24)
                scene["entities"] = [(*content, center, center, *box)]
            x = 32 + (2 * unit if memory else 0)
            left, top = round(x - unit / 2), round(32 - unit / 2)
            cells.append(render_scene(env_of(scene))[top : top + round(unit), left : left + round(unit)].astype(int))
        for a in range(len(cells)):
            for b in range(a):
                assert np.abs(cells[a] - cells[b]).mean() > 8, (background, contents[a], contents[b])


def test_the_agent_faces_its_last_direction():
    frames = [render_scene(env_of(empty_scene(facing=facing))) for facing in range(const.NUM_MOVES)]
    right = const.ACTIONS.index("right")
    assert np.array_equal(frames[const.NOOP], frames[right])
    for a in range(const.NUM_MOVES):
        for b in range(a):
            assert {a, b} == {const.NOOP, right} or not np.array_equal(frames[a], frames[b])


def write_textures(folder):
    """Write files named as in procgen-mirror, each of one color."""
    for k, file in enumerate(textures.ASSET_FILES):
        buffer = io.BytesIO()
        Image.new("RGBA", (4, 4), (10 * k, 0, 0, 255)).save(buffer, "png")
        path = folder / textures.ASSETS / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())


def test_procgen_textures_are_read_from_a_wheel_or_a_folder(tmp_path, monkeypatch):
    write_textures(tmp_path / "installed")
    with zipfile.ZipFile(tmp_path / "procgen.whl", "w") as wheel:
        for file in textures.ASSET_FILES:
            wheel.write(tmp_path / "installed" / textures.ASSETS / file, textures.ASSETS + file)
    reds = [10 * k for k in range(textures.NUM_TEXTURES)]
    for path in ("installed", "procgen.whl"):
        atlas = textures.load_atlas("procgen", tmp_path / path)
        assert (atlas.texels[atlas.regions[:, 0]] & 255).tolist() == reds
    monkeypatch.setenv(textures.PROCGEN_VARIABLE, str(tmp_path / "procgen.whl"))
    assert np.array_equal(textures.load_atlas("procgen").texels, atlas.texels)


def test_missing_textures_raise_an_error_with_instructions(tmp_path, monkeypatch):
    monkeypatch.delenv(textures.PROCGEN_VARIABLE, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(textures.MissingTexturesError, match=r"pip download .*procgen-mirror.* set ENVGEN_PROCGEN"):
        textures.load_atlas("procgen")
    (tmp_path / "broken.whl").write_bytes(b"not a zip")
    for name in ("nowhere.whl", "broken.whl", "."):
        with pytest.raises(textures.MissingTexturesError, match="does not contain procgen's textures"):
            textures.load_atlas("procgen", tmp_path / name)
    with pytest.raises(ValueError, match="'pretty' is not one of envgen, procgen"):
        textures.load_atlas("pretty")


@pytest.mark.parametrize("k", range(6))
def test_hd_image_matches_the_frame(k):
    envs = env_of(make_scene(k))
    image = render.render_hd(envs[0], 256)
    assert image.shape == (256, 256, 3)
    small = np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.BOX)).astype(int)
    assert np.abs(small - render_scene(envs)).mean() < 12


def test_hd_images_have_any_size_and_can_show_the_whole_world():
    envs = env_of(empty_scene(world_size=23, memory=True, walls=np.zeros((23, 23), np.bool_)))
    assert render.render_hd(envs[0], 33).shape == (33, 33, 3)
    wide = render.render_hd(envs[0], (96, 64))
    assert np.array_equal(wide[:, 16:80], render.render_hd(envs[0], 64))
    assert not wide[:, :16].any()
    assert not wide[:, 80:].any()
    assert not np.array_equal(render.render_hd(envs[0], 64), render.render_hd(envs[0], 64, full_view=True))
    with pytest.raises(ValueError, match="size 8 must be 32 to 4096 pixels"):
        render.render_hd(envs[0], 8)


def has_color(image, color, box):
    left, top, right, bottom = box
    return (image[top:bottom, left:right] == color).all(-1).any()


def test_previews_mark_entities_and_what_the_level_placed():
    world = Heist()
    original = world.render_map(None, 3)
    changed = world.render_map({"keys": "three", "open_doors": {"green": True}, "start": "gem"}, 3)
    assert original.shape == changed.shape == (384, 384, 3)
    assert not (original == render.LEVEL_COLOR).all(-1).any()
    env = start_episode({}, 3)
    positions = [(env["x"], env["y"]), *((e["x"], e["y"]) for e in env["entities"][: env["num_entities"]])]
    for x, y in positions:  # a marker around the agent and every entity
        center_x, center_y, radius = x * 384 / 13, 384 - y * 384 / 13, 384 / 13
        box = [round(v) for v in (center_x - radius, center_y - radius, center_x + radius, center_y + radius)]
        assert has_color(original, render.MARKER_COLOR, np.clip(box, 0, 384))
    assert (changed == render.LEVEL_COLOR).all(-1).any()


def test_previews_show_removed_keys_and_doors():
    level = HeistLevel(open_doors=OpenDoors(blue=True), held_keys=HeldKeys(blue=True))
    env, unmodified = start_episode(level, 3), start_episode({}, 3)
    image = render.render_preview(env, unmodified, level, 384)
    for entity in unmodified["entities"][: unmodified["num_entities"]]:
        x, y = int(entity["x"]) + 0.5, int(entity["y"]) + 0.5
        center_x, center_y = round(x * 384 / 13), round(384 - y * 384 / 13)
        is_removed = entity["kind"] != const.ENTITY_GEM and entity["color"] == 0
        box = (center_x - 3, center_y - 3, center_x + 3, center_y + 3)
        assert has_color(image, render.LEVEL_COLOR, box) == is_removed


def test_preview_legend_is_drawn_below_the_levels():
    world = Heist()
    legend = world.map_legend()
    assert [text for _, text in legend][1:4] == ["key", "locked door", "gem"]
    assert all(icon.shape == (render.ICON_SIZE, render.ICON_SIZE, 3) for icon, _ in legend)
    page = np.asarray(world.render_levels({"a": {}}))
    below = page[-render.ICON_SIZE - 6 :]
    assert page.shape[0] > 384 + render.ICON_SIZE
    assert (below == render.ICON_BACKGROUND).all(-1).any()
