"""The files of a model may come from someone else: none hangs, fills the memory, runs code or ends in a traceback."""

import json
import shutil
import threading
import time

import pytest

from envgen.coevolution.language_model import LanguageModel, ModelError, new_model
from envgen.coevolution.language_model import train_tokenizer as train
from envgen.coevolution.model_files import check_config, render_template
from envgen.coevolution.model_io import load_model, save_model
from envgen.coevolution.settings import ModelSize
from special_files import KINDS, make_special_file

SIZE = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64)
TEXTS = ["a b c d", "d d d a"]


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_model(new_model(train(TEXTS, 300), SIZE, 0), folder)
    return folder


@pytest.fixture
def folder(saved_model, tmp_path):
    return shutil.copytree(saved_model, tmp_path / "model")


def edit(file, **values):
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_an_intact_model_is_loaded(folder):
    assert load_model(folder).encode_prompt("", "a b")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["half", "empty", "changed", "text", "deep", "list"])
def test_a_damaged_file_is_reported(folder, name, damage):
    file = folder / name
    data = file.read_bytes()
    changed = bytearray(data)
    changed[: len(data) // 2 : 7] = b"\xff" * len(changed[: len(data) // 2 : 7])
    content = {
        "half": data[: len(data) // 2], "empty": b"", "changed": bytes(changed), "text": b"hello",
        "deep": b"[" * 100_000, "list": b"[]",
    }  # fmt: skip
    file.write_bytes(content[damage])
    with pytest.raises(ModelError, match=r"cannot load the model .*; pass a folder with safetensors"):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"])
@pytest.mark.parametrize("kind", [*KINDS, "dangling link"])
def test_a_file_that_is_not_a_small_regular_file_is_not_read(folder, name, kind):
    file = folder / name
    file.unlink(missing_ok=True)
    make_special_file(file, kind)
    with pytest.raises(ModelError):
        load_model(folder)


def test_weights_in_other_formats_are_not_read(folder, monkeypatch):
    monkeypatch.setattr("envgen.coevolution.model_files.MAX_TEXT_BYTES", 1 << 20)
    for name in ("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "pytorch_model.bin"):
        (folder / name).write_bytes(bytes(2 << 20))
    assert load_model(folder)
    (folder / "vocab.json").write_bytes(bytes(2 << 20))
    with pytest.raises(ModelError, match=r"vocab\.json has 2,097,152 bytes, but at most 1,048,576 are read"):
        load_model(folder)


@pytest.mark.parametrize(
    "index",
    ["[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": "../model.safetensors"}}', '{"weight_map": {"a": 3}}',
     '{"weight_map": {"a": "/dev/zero"}}', '{"weight_map": {"a": "pytorch_model.bin"}}'],
)  # fmt: skip
def test_an_index_names_only_weights_beside_it(folder, index):
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelError, match=r"index\.json (is damaged|names files)"):
        load_model(folder)


def test_an_adapter_for_another_model_is_refused(folder):
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    with pytest.raises(ModelError, match="adapter for another model; merge it"):
        load_model(folder)


@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "someone/kernel"},
        {"_attn_implementation": "someone/kernel@main:function"},
        {"_attn_implementation_internal": "paged|someone/kernel"},
        {"text_config": {"attn_implementation": "someone/kernel"}},
        {"attn_implementation": {"": "sdpa", "text_config": "someone/kernel"}},
        {"layers": [{"experts_implementation": "someone/kernel"}]},
    ],
)
def test_a_config_that_names_an_external_kernel_is_refused(folder, values):
    edit(folder / "config.json", **values)
    with pytest.raises(ModelError, match=r"asks for the external kernel .*; remove \w+ from its config\.json"):
        load_model(folder)


def test_kernels_of_transformers_are_accepted():
    check_config({"attn_implementation": "sdpa", "_name_or_path": "someone/model", "a": [{"b": None}]}, "model")


def with_template(folder, template) -> LanguageModel:
    (folder / "chat_template.jinja").write_text(template)
    return load_model(folder)


def test_a_chat_template_is_used(folder):
    lm = with_template(folder, "{% for m in messages %}{{ m['content'] }} {% endfor %}")
    assert lm.decode(lm.encode_prompt("a b", "c d")) == "a b c d "


@pytest.mark.parametrize(
    "template",
    ["{{ 1 / 0 }}", "{% for %}", "{{ raise_exception('no') }}", "{{ messages.missing.attribute }}",
     "{{ ''.__class__.mro() }}"],
)  # fmt: skip
def test_a_chat_template_that_fails_is_reported(folder, template):
    with pytest.raises(ModelError, match=r"the chat template of the model fails: .*; pass another model"):
        with_template(folder, template)


def test_a_chat_template_that_does_not_end_is_stopped():
    started, ended = threading.Event(), threading.Event()

    def render():
        started.set()
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(ModelError, match=r"did not end within 0\.2 seconds"):
        render_template(render, 0.2)
    assert started.is_set()
    assert ended.wait(20)  # it does not keep a core busy


def test_a_looping_chat_template_is_stopped(folder, monkeypatch):
    monkeypatch.setattr("envgen.coevolution.model_files.TEMPLATE_SECONDS", 1.0)
    loop = "{% for a in range(99999) %}" * 4 + "{% endfor %}" * 4
    start = time.monotonic()
    with pytest.raises(ModelError, match="did not end within 1 seconds"):
        with_template(folder, loop)
    assert time.monotonic() - start < 60


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(folder):
    lm = load_model(folder)
    small = LanguageModel(new_model(train(TEXTS[:1], 258), SIZE, 0).model, lm.tokenizer)
    small.model.resize_token_embeddings(10)
    with pytest.raises(ModelError, match=r"gives the token \d+, but the model has only 10; choose a model"):
        small.check_round_trip(["a b c d"], "texts")


def test_a_model_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    lm = new_model(train(TEXTS, 300), SIZE, 0)
    with pytest.raises(ModelError, match="cannot write the model to"):
        save_model(lm, tmp_path / "file" / "model")
