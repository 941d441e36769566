"""Models that cannot be read, and the human's server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sweet_rl.models.settings import ModelSettings
from sweet_rl.preflight.models import check_human, check_model
from tests.support.api_server import MODEL, ApiServer, refusal
from tests.support.hub_server import HubServer, use_hub

NAME = "owner/name"


def test_a_folder_needs_its_configuration_and_all_its_weights(tiny_chat_model, tmp_path):
    model, finding = check_model(tiny_chat_model)
    assert finding.state == "ok" and model.heads == (4, 2, 8) and model.download == 0
    folder = Path(shutil.copytree(tiny_chat_model, tmp_path / "model"))
    (folder / "model.safetensors").unlink()
    model, finding = check_model(str(folder))
    assert model is None and finding.state == "FAILED" and str(folder) in finding.text


@pytest.fixture
def hub(tiny_chat_model, tmp_path, monkeypatch):
    files = {f"{NAME}/{path.name}": path.read_bytes() for path in Path(tiny_chat_model).iterdir()}
    with HubServer(files) as server:
        use_hub(monkeypatch, server, tmp_path / "cache")
        monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path / "cache"), raising=False)
        yield server


def test_a_model_on_the_hub_is_asked_for_without_its_weights(hub):
    model, finding = check_model(NAME)
    assert finding.state == "ok" and "to download" in finding.text and model.download == 2 * model.shape.parameters
    assert not any("model.safetensors" in path for method, path in hub.requests if method == "GET")


def test_a_gated_model_without_access_is_a_failure_that_says_how_to_get_it(hub):
    hub.gated.add(NAME)
    model, finding = check_model(NAME)
    assert model is None and finding.state == "FAILED"
    assert f"huggingface.co/{NAME}" in finding.text and "hf auth login" in finding.text


def test_a_name_that_is_neither_a_folder_nor_on_the_hub_is_a_failure(hub, monkeypatch):
    assert "correct the name" in check_model("owner/nothing")[1].text
    assert "correct the name" in check_model("runs/agent/checkpoint")[1].text
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert f"hf download {NAME}" in check_model(NAME)[1].text


def test_a_server_is_asked_what_it_serves():
    with ApiServer(lambda body: refusal(404, f"no model {body['model']}")) as server:
        settings = ModelSettings(hostname=server.url)
        finding = check_human(MODEL, settings)
        assert finding.state == "ok" and f"{server.url} ({MODEL})" in finding.text
        finding = check_human("another", settings)
        assert finding.state == "FAILED" and MODEL in finding.text
    finding = check_human(MODEL, settings)
    assert finding.state == "FAILED" and server.url in finding.text and f"vllm serve {MODEL}" in finding.text
