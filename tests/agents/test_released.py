"""Policies are loaded from release files, by a name in the cache, and from the hub; hostile files are refused."""

import http.server
import importlib
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import envgen
from envgen.agents.policy import Policy, PolicyError
from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.curriculum.trainer import training_stats
from envgen.runs.store import read_progress

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return PPO.for_envs(gymnasium.make_vec("CartPole-v1", 2), PpoSettings(num_envs=2, num_steps=8), seed=2).policy


@pytest.fixture(scope="module")
def folder(policy, tmp_path_factory) -> Path:
    folder = policy.save(tmp_path_factory.mktemp("saved") / "cart-pole")
    (folder / "README.md").write_text("A model card.")
    return folder


@pytest.fixture(scope="module")
def release_file(folder) -> Path:
    return write_zip(
        folder.with_suffix(".zip"), {f"cart-pole/{file.name}": file.read_bytes() for file in folder.iterdir()}
    )


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "policies").mkdir(parents=True)
    return tmp_path / "cache" / "policies"


def write_zip(file: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


def assert_same(loaded: Policy, policy: Policy) -> None:
    obs = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    np.testing.assert_array_equal(loaded.act(obs), policy.act(obs))
    for name, tensor in policy.network.state_dict().items():
        assert loaded.network.state_dict()[name].equal(tensor)


def test_a_release_file_is_loaded_by_its_path_and_through_a_link(policy, release_file, tmp_path):
    (tmp_path / "link.zip").symlink_to(release_file)
    for file in (release_file, str(release_file), tmp_path / "link.zip"):
        assert_same(envgen.load_policy(file), policy)


def test_a_name_is_found_in_the_cache_as_a_file_and_as_a_folder(policy, folder, release_file, cache):
    shutil.copy(release_file, cache / "balance.zip")
    shutil.copytree(folder, cache / "balance-2")
    assert_same(envgen.load_policy("balance"), policy)
    assert_same(envgen.load_policy("balance-2"), policy)


def test_a_folder_of_that_name_comes_before_the_cache(policy, folder, cache, tmp_path, monkeypatch):
    (cache / "balance.zip").write_bytes(b"not a zip")
    shutil.copytree(folder, tmp_path / "balance")
    monkeypatch.chdir(tmp_path)
    assert_same(envgen.load_policy("balance"), policy)


def test_an_unknown_name_says_where_the_file_belongs(cache):
    with pytest.raises(PolicyError, match=rf"nor a policy in {cache}; download the release file balance.zip"):
        envgen.load_policy("balance")
    with pytest.raises(envgen.EnvgenError, match="out/balance"):
        envgen.load_policy("out/balance")  # a path is no name


@pytest.mark.parametrize("name", ["..", ".", "../balance", "a/b", "", "a\0b"])
def test_names_do_not_lead_out_of_the_cache(name, cache):
    from envgen.agents.released import find_cached_policy

    write_zip(cache.parent / "balance.zip", {"policy.json": b"{}"})
    assert find_cached_policy(name) is None


def test_hostile_release_files_are_refused(folder, release_file, tmp_path):
    json_data, arrays_data = ((folder / name).read_bytes() for name in ("policy.json", "policy.safetensors"))
    file = tmp_path / "hostile.zip"

    def refuse(match: str) -> None:
        with pytest.raises(PolicyError, match=match):
            envgen.load_policy(file)

    file.write_bytes(b"no archive")
    refuse("not a release file")
    data = release_file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    refuse("not a release file")
    file.write_bytes(data.replace(b"policy.json", b"policy.jsom"))
    refuse(r"it has 0 files policy.json")
    write_zip(file, {"a/policy.json": json_data, "b/policy.json": json_data, "policy.safetensors": arrays_data})
    refuse(r"it has 2 files policy.json")
    write_zip(file, {"policy.json": json_data, "policy.safetensors": arrays_data[:-4] + b"abcd"})
    refuse("does not match its checksum")
    write_zip(file, {"policy.json": json_data, "policy.pkl": arrays_data})
    refuse(r"it has 0 files policy.safetensors")
    write_zip(file, {"policy.json": b" " * (65 << 20) + json_data, "policy.safetensors": arrays_data})
    refuse(r"policy.json has 68,\d+,\d+ bytes, but at most 67,108,864 are read")


def test_paths_in_a_release_file_have_no_effect(policy, folder, tmp_path):
    members = {f"../../{file.name}": file.read_bytes() for file in folder.iterdir()}
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    file = write_zip(tmp_path / "deep" / "deeper" / "x.zip", members)
    assert_same(envgen.load_policy(file), policy)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["x.zip"]


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers like the hub, for the files of one repository."""

    files: Path

    def do_GET(self) -> None:
        _, owner, name, resolve, _, file = self.path.split("/")
        exists = (owner, name, resolve) == ("someone", "cart-pole", "resolve") and (self.files / file).is_file()
        data = (self.files / file).read_bytes() if exists else b""
        self.send_response(200 if exists else 404)
        if exists:
            self.send_header("ETag", f'"{file}-{len(data)}"')
            self.send_header("X-Repo-Commit", "0123456789012345678901234567890123456789")
        else:
            self.send_header("X-Error-Code", "RepoNotFound" if name != "cart-pole" else "EntryNotFound")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *args) -> None:
        pass


@pytest.fixture
def hub(folder, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("FolderHub", (Hub,), {"files": folder}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_policy_of_the_hub_is_loaded(policy, hub, tmp_path):
    assert_same(envgen.load_policy("hf:someone/cart-pole"), policy)
    snapshot = next((tmp_path / "hub").rglob("policy.json")).parent
    assert sorted(path.name for path in snapshot.iterdir()) == ["policy.json", "policy.safetensors"]


def test_oversized_files_of_the_hub_are_not_downloaded(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.agents.released.MAX_JSON_BYTES", 10)
    with pytest.raises(PolicyError, match=r"policy.json has \d+ bytes, but at most 10 are read"):
        envgen.load_policy("hf:someone/cart-pole")
    assert not list((tmp_path / "hub").rglob("policy.json"))


def test_what_the_hub_does_not_have_is_an_error_with_its_name(hub):
    with pytest.raises(PolicyError, match="hf:someone/other cannot be loaded"):
        envgen.load_policy("hf:someone/other")
    with pytest.raises(PolicyError, match="write hf:owner/name"):
        envgen.load_policy("hf:../../etc/passwd")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(PolicyError, match=r"need huggingface_hub: pip install 'envgen\[hub\]'"):
        envgen.load_policy("hf:someone/cart-pole")


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("policies")


def test_a_policy_is_added_with_the_results_of_its_run_only(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "POLICIES", tmp_path / "policies")
    plan = {"cycles": 0, "final_steps": 2048, "episodes": 4}
    settings = {"plan": plan, "verbose": False, "hyperparameters": {"num_envs": 8, "num_steps": 64}}
    run = envgen.train("crafter", "none", seed=1, folder=tmp_path / "run", **settings)
    final = json.loads((run.folder / "summary.json").read_text())["final"]
    stats = training_stats(read_progress(run.folder), list(final["skills"]))
    assert stats is not None
    result = {"variant": "symbols", "seed": 1, "steps": 2048, "seconds": 1, "final": final, "package": final}
    result["training"] = stats.model_dump(mode="json")
    file = tmp_path / "results.json"
    for name, value in {"seed": 2, "steps": 4096, "training": result["training"] | {"score": 0.0}}.items():
        file.write_text(json.dumps(result | {name: value}))
        with pytest.raises(SystemExit, match=f"results of another run than .*: {name} differ"):
            tool.add(run.folder, "small", file)
    assert not tool.POLICIES.exists()
    file.write_text(json.dumps(result))
    folder = tool.add(run.folder, "small", file)
    assert f"score was {stats.score:.1f}" in (folder / "README.md").read_text()
    assert envgen.load_policy(folder).metadata["name"] == "small"


def test_the_policy_of_an_extended_run_is_added_with_the_statistics_of_all_its_training(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "POLICIES", tmp_path / "policies")
    settings = {"verbose": False, "hyperparameters": {"num_envs": 2, "num_steps": 64}}
    for steps, extend in ((768, False), (2304, True)):
        plan = {"cycles": 0, "final_steps": steps, "episodes": 4}
        run = envgen.train("crafter", "none", plan=plan, seed=1, folder=tmp_path / "run", extend=extend, **settings)
    summary = json.loads((run.folder / "summary.json").read_text())
    lines = list(read_progress(run.folder))
    stats = training_stats(lines, list(summary["final"]["skills"]))
    assert stats is not None
    assert stats.episodes == sum(line["episodes"] for line in lines) > summary["training"]["episodes"]
    result = {"variant": "symbols", "seed": 1, "steps": 2304, "seconds": 1}
    result |= {"final": summary["final"], "package": summary["final"]}
    file = tmp_path / "results.json"
    file.write_text(json.dumps(result | {"training": summary["training"]}))  # of the added steps alone
    with pytest.raises(SystemExit, match=r"results of another run than .*: training differ"):
        tool.add(run.folder, "small", file)
    file.write_text(json.dumps(result | {"training": stats.model_dump(mode="json")}))
    folder = tool.add(run.folder, "small", file)
    assert f"score was {stats.score:.1f}" in (folder / "README.md").read_text()


def test_the_published_policies_have_cards_with_the_numbers_of_the_results(tool):
    for folder in tool.POLICIES.iterdir():
        policy = envgen.load_policy(folder)
        card = (folder / "README.md").read_text()
        (results,) = {word.strip("`.") for word in card.split() if word.startswith("`docs/results/")}
        assert card == tool.write_card(folder.name, policy.metadata["observation"], policy.has_memory, ROOT / results)
        assert (folder / "policy.safetensors").stat().st_size < 5 << 20


def test_the_published_policies_are_packed_and_play(tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "policies.py"), "pack", "--out", str(tmp_path)]
    assert "crafter-far.zip" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = envgen.evaluate(tmp_path / "crafter-far.zip", episodes=16, seed=9_000_000_000)
    assert result == envgen.evaluate(ROOT / "policies" / "crafter-far", episodes=16, seed=9_000_000_000)
    assert result.score.value > 30
