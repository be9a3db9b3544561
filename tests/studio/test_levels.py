"""The level editor: forms of every world, levels, statistics, games and level files."""

import json
import re

import pytest
from client import serve
from hypothesis import given
from hypothesis import strategies as st
from toy_world import ToyWorld

from envgen.curriculum.plan import EVALUATION_SEED
from envgen.designers.designer import ProposedLevel
from envgen.runs.files import MAX_JSON_DEPTH
from envgen.studio.games import MAX_GAMES
from envgen.studio.levels import FILE_NAME, file_in, level_form
from envgen.studio.server import RequestError
from envgen.worlds.level_space import setting_values
from envgen.worlds.registry import make_world, world_names
from run_files import HOSTILE
from special_files import KINDS, make_special_file


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("folder")) as client:
        yield client


@pytest.mark.parametrize("name", [*world_names(), "toy"])
def test_the_form_has_a_control_for_every_setting_with_the_value_of_the_original(name):
    world = ToyWorld() if name == "toy" else make_world(name)
    form = level_form(world)
    controls = re.findall(r'data-setting="([^"]*)" data-original="([^"]*)"', form)
    originals = {name: json.loads(value.replace("&quot;", '"')) for name, value in controls}
    expected = {name: values[0] for name, values in setting_values(world.Level).items()}
    assert {name: tuple(v) if isinstance(v, list) else v for name, v in originals.items()} == expected
    assert sum(form.count(f"<{name}") for name in ("input", "select", "textarea")) >= len(expected)
    assert len(re.findall(r' id="([^"]*)"', form)) == len(set(re.findall(r' id="([^"]*)"', form)))


def test_every_world_has_its_page(client):
    page = client.get("levels").text
    for name in ("toy", *world_names()):
        assert f'href="levels?world={name}"' in page
        assert f'data-world="{name}"' in client.get(f"levels?world={name}").text
    assert client.get("levels?world=nothing").status == 404
    assert client.get("levels?world=toy_world:ToyWorld").status == 404  # a name in an address is not imported


def test_a_level_is_checked_and_described(client):
    answer = client.post(
        "level", {"world": "toy", "level": {"floor": "Very-Soft", "items": {"coins": "3"}, "width": 6}}
    )
    assert answer.json["error"] == ""
    assert answer.json["overrides"] == {"floor": "very soft", "items": {"coins": 3}}
    assert answer.json["values"]["items.coins"] == 3
    assert answer.json["values"]["doors"] == ["right"]
    text = client.post("level", {"world": "toy", "level": '{"level": {"width": 3}}'})
    assert text.json["overrides"] == {"width": 3}


@pytest.mark.parametrize(
    ("level", "error"),
    [
        ({"widht": 3}, "did you mean 'width'?"),
        ({"width": 99}, "width must be a whole number from 3 to 12, not 99"),
        ({"width": None}, "width must be a whole number from 3 to 12, but is empty"),
        ({"width": 3.5}, "width must be a whole number from 3 to 12, not 3.5"),
        ({"slope": "steep"}, "slope must be a number from -1.0 to 1.0, not 'steep'"),
        ({"items": {"coins": ""}}, "items.coins must be a whole number from 0 to 9, not ''"),
        ({"width": 2, "signs": [3]}, "width must be a whole number from 3 to 12, not 2; signs.0: "),
        ({"floor": "stoen"}, "did you mean 'stone'?"),
        ("{", "this is not JSON"),
        ("[]", "a level is a JSON object"),
        ("[" * (MAX_JSON_DEPTH + 9) + "]" * (MAX_JSON_DEPTH + 9), "nested deeper"),
        (7, "a level is a JSON object"),
        (HOSTILE, "this is not JSON"),
    ],
)
def test_what_is_wrong_with_a_level_is_said(client, level, error):
    answer = client.post("level", {"world": "toy", "level": level})
    assert answer.status == 200
    assert error in answer.json["error"]
    assert "picture" not in answer.json


def test_what_to_enter_is_said_for_each_number(client):
    level = {"width": None, "slope": 2, "signs": [3], "items": {"coins": 10}}
    fields = client.post("level", {"world": "toy", "level": level}).json["fields"]
    assert fields == {
        "width": "Enter a whole number from 3 to 12.",
        "slope": "Enter a number from -1.0 to 1.0.",
        "items.coins": "Enter a whole number from 0 to 9.",
    }
    assert client.post("level", {"world": "toy", "level": {"floor": "sand"}}).json["fields"] == {}


@pytest.mark.parametrize("seed", [-1, EVALUATION_SEED, 2**32, 1.5, "0", True])
def test_seeds_are_checked(client, seed):
    assert client.post("level", {"world": "toy", "level": {}, "seed": seed}).status == 400


def test_seeds_are_those_of_training(client):
    assert f'id="seed" value="0" min="0" max="{EVALUATION_SEED - 1}"' in client.get("levels?world=toy").text
    assert client.post("level", {"world": "toy", "level": {}, "seed": EVALUATION_SEED - 1}).status == 200


def test_a_level_is_drawn_when_its_picture_is_asked_for(client):
    names = [client.post("level", {"world": "toy", "level": {"width": w}, "seed": s}).json["picture"]
             for w, s in ((6, 0), (6, 0), (6, 1), (7, 0))]  # fmt: skip
    assert names[0] == names[1]
    assert len(set(names)) == 3
    answer = client.get(f"picture?name={names[0]}")
    assert answer.headers["Content-Type"] == "image/webp"
    assert "WEBP" in answer.text[:20]
    assert client.get("picture?name=nothing").status == 404


def test_statistics_name_what_differs_from_the_original(client):
    answer = client.post("level-stats", {"world": "toy", "level": {"width": 12}})
    assert "initial agent" in answer.text
    assert "this level" in answer.text
    assert re.search(r"initial agent \d\.\d -&gt; \d\.\d", answer.text)
    assert "No statistic differs" in client.post("level-stats", {"world": "toy", "level": {}}).text


# --- games


def test_a_game_is_played_with_keys(client):
    game = client.post("play", {"world": "toy", "level": {"width": 12}, "seed": 3}).json
    assert game["actions"] == [{"action": "left", "key": "left"}, {"action": "right", "key": "right"}]
    assert game["frame"].startswith("data:image/png;base64,")
    after = client.post("key", {"game": game["game"], "key": "left"}).json
    assert after["status"][0] == "step 1, return 0"
    for _ in range(12):
        after = client.post("key", {"game": game["game"], "key": "right"}).json
        if after["done"]:
            break
    assert "reach_end" in after["status"][1]
    assert any("The episode ended" in text for text in after["events"])
    assert client.post("key", {"game": game["game"], "key": "r"}).json["status"][0] == "step 0, return 0"
    assert client.post("key", {"game": game["game"], "key": "escape"}).json == {"quit": True}
    assert client.post("key", {"game": game["game"], "key": "right"}).status == 404


def test_unknown_keys_change_nothing(client):
    game = client.post("play", {"world": "toy", "level": {}}).json
    answer = client.post("key", {"game": game["game"], "key": HOSTILE}).json
    assert answer["status"][0] == "step 0, return 0"
    assert "is not one of" in answer["events"][0]


def test_the_number_of_games_is_limited(client):
    games = [client.post("play", {"world": "toy", "level": {}}).json["game"] for _ in range(MAX_GAMES + 1)]
    assert client.post("key", {"game": games[0], "key": "left"}).status == 404
    assert client.post("key", {"game": games[-1], "key": "left"}).status == 200


def test_a_world_without_key_bindings_is_played_with_numbers(client, monkeypatch):
    monkeypatch.setattr(ToyWorld, "key_bindings", {})
    game = client.post("play", {"world": "toy", "level": {}}).json
    assert game["actions"] == [{"action": "left", "key": "1"}, {"action": "right", "key": "2"}]
    assert client.post("key", {"game": game["game"], "key": "2"}).json["status"][0].startswith("step 1")


# --- files


def save(client, name, level, **options):
    return client.post("level-file", {"world": "toy", "name": name, "level": level, **options})


def test_a_level_is_saved_as_commands_read_it_and_loaded_again(client):
    folder = client.studio.folder.folder
    answer = save(client, "soft floor", {"floor": "very soft", "width": 6})
    assert answer.json["file"] == str(folder / "soft floor.json")
    from envgen.cli.common import read_level

    assert read_level(folder / "soft floor.json", ToyWorld()).to_overrides() == {"floor": "very soft"}
    assert "soft floor.json" in client.get("level-files?world=toy").json
    assert client.get("level-file?world=toy&name=soft%20floor.json").json["overrides"] == {"floor": "very soft"}
    assert client.get("level-file?world=toy&name=soft%20floor").json["values"]["floor"] == "very soft"
    assert client.get("level-file?world=heist&name=soft%20floor").status == 422
    assert "soft floor.json" not in client.get("level-files?world=heist").json


def test_an_existing_level_is_replaced_only_on_purpose(client):
    save(client, "twice", {"width": 3})
    assert save(client, "twice", {"width": 4}).json == {"conflict": "twice.json exists"}
    assert client.get("level-file?world=toy&name=twice").json["overrides"] == {"width": 3}
    assert save(client, "twice", {"width": 4}, replace=True).status == 200
    assert client.get("level-file?world=toy&name=twice").json["overrides"] == {"width": 4}


def test_an_invalid_level_is_not_saved(client):
    answer = save(client, "invalid", {"width": 99})
    assert answer.status == 422
    assert "from 3 to 12" in answer.text
    assert not (client.studio.folder.folder / "invalid.json").exists()


NAMES = ["", ".", "..", "../x", "/etc/x", "a/b", "a\\b", ".hidden", "x\0", "x\n", "é", "run.json", "run", "summary",
         "x" * 90, "C:x", "-x", " x"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused(client, name, tmp_path):
    assert save(client, name, {}, replace=True).status == 400
    with pytest.raises(RequestError):
        file_in(tmp_path, name)
    assert client.post("level-file", {"world": "toy", "level": {}, "name": None}).status == 400


@given(name=st.text(max_size=12) | st.from_regex(FILE_NAME, fullmatch=True))
def test_every_name_that_is_accepted_is_in_the_folder(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp()
    try:
        file = file_in(folder, name)
    except RequestError:
        return
    assert file.parent == folder
    assert file.resolve().parent == folder.resolve()
    assert file.name not in ("run.json", "summary.json")


@pytest.mark.parametrize(
    "text",
    ['{"my": "notes"}', '{"level": {"width": 3}, "episodes": 64, "deterministic": false}'],
    ids=["notes", "evaluation"],
)
def test_files_that_hold_no_level_are_not_replaced_or_read(client, text):
    folder = client.studio.folder.folder
    (folder / "notes.json").write_text(text)
    assert save(client, "notes", {}, replace=True).status == 422
    assert (folder / "notes.json").read_text() == text
    assert client.get("level-file?world=toy&name=notes").status == 422
    assert "notes.json" not in client.get("level-files?world=toy").json


def test_a_file_with_an_entry_of_a_proposal_is_a_level_file(client):
    entry = ProposedLevel(level=ToyWorld.Level(width=3), purpose="short", skills=("reach_end",), weight=2.0)
    (client.studio.folder.folder / "entry.json").write_text(entry.model_dump_json())
    assert client.get("level-file?world=toy&name=entry").json["overrides"] == {"width": 3}
    assert "entry.json" in client.get("level-files?world=toy").json


def test_links_to_files_outside_are_not_read_or_written(client, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"width": 5}')
    link = client.studio.folder.folder / "link.json"
    link.symlink_to(secret)
    answer = client.get("level-file?world=toy&name=link")
    assert answer.status == 422
    assert "it is a symbolic link" in answer.text
    assert "link.json" not in client.get("level-files?world=toy").json
    assert save(client, "link", {"width": 9}, replace=True).status == 422
    assert secret.read_text() == '{"width": 5}'


@pytest.mark.parametrize("kind", KINDS)
def test_special_files_are_refused(client, kind):
    make_special_file(client.studio.folder.folder / f"special-{kind}.json", kind)
    assert client.get(f"level-file?world=toy&name=special-{kind}").status == 422
    assert client.get("level-files?world=toy").status == 200


def test_a_world_with_continuous_actions_cannot_be_played_with_keys(client, monkeypatch):
    monkeypatch.setattr(ToyWorld, "key_bindings", {})
    monkeypatch.setattr(ToyWorld, "actions", ())
    answer = client.post("play", {"world": "toy", "level": {}})
    assert answer.status == 422
    assert "continuous actions" in answer.text


def test_other_files_do_not_hide_level_files(client, monkeypatch):
    folder = client.studio.folder.folder
    monkeypatch.setattr("envgen.studio.levels.MAX_FILES", 3)
    for k in range(4):
        (folder / f"a{k}.json").write_text('{"my": "notes"}')
        (folder / f"b{k}.json").write_text('{"width": 3}')
    assert client.get("level-files?world=toy").json == ["b0.json", "b1.json", "b2.json"]
