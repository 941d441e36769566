"""What preflight.py checks: versions, GPUs, models, tasks, the human's server, memory and disk."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from transformers import Gemma3nTextConfig, MambaConfig

from sweet_rl.dialogues.task_types import ProtocolSettings
from sweet_rl.models.weights import parameter_count
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.training import preflight
from sweet_rl.training.memory import LLAMA_8B, TrainingSetup, training_memory
from sweet_rl.training.preflight import Preflight, PreflightSettings, check_on_hub, check_tasks, processes_of
from tests.support.api_server import MODEL, ApiServer, refusal
from tests.support.hub_server import HubServer, use_hub

NAME = "owner/name"
CRITIC = "paper/backend/critic.yaml"


def checks(**settings) -> Preflight:
    return Preflight(PreflightSettings(**{"agent_model": "8B"} | settings))


def with_training(flags: str, gpus: int = 8, free: float = 80e9, **settings) -> Preflight:
    """A run with the paper's critic of 8 billion weights, under ZeRO-3 unless the flags say another stage."""
    flags = flags if "--zero_stage" in flags else f"--zero_stage 3 {flags}"
    launch = f"torchrun --nproc_per_node {gpus}"
    run = checks(trainings=(CRITIC,), train_flags=flags, launch=launch, **settings)
    run.gpus, run.free = gpus, free
    run.shapes, run.downloads = {"8B": LLAMA_8B}, {"8B": 0}
    return run


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts the metadata of packages onto the path, as an installation of them has it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, number: str, *requirements: str) -> None:
        folder = tmp_path / f"{name}-{number}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}"]
        lines += [f"Requires-Dist: {one}" for one in requirements]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")

    return install


def test_the_prompts_of_the_protocol_are_loaded_before_anything_is_started(tmp_path):
    assert "sweet_rl protocol" in Preflight(PreflightSettings("8B"), ProtocolSettings()).check_protocol()
    for task_type, name in (("code", "llm_agent_code_prompt.txt"), ("html", "human_design_interaction_env.py")):
        run = Preflight(PreflightSettings("8B"), ProtocolSettings("released", str(tmp_path)), task_type)
        with pytest.raises(UserError, match=f"--protocol_files: .*{name} cannot be read"):
            run.check_protocol()


def test_a_package_that_wants_another_version_is_refused_whether_its_own_metadata_or_setup_says_so(installed):
    assert "transformers" in checks().versions(), "the environment of the tests itself"
    installed("vllm", "0.32.0", "transformers<5", 'numpy<1; extra == "old"')
    with pytest.raises(UserError, match="^vllm 0.32.0 wants transformers<5, found 5[0-9.]*. pip install"):
        checks().versions()
    installed("sweet_rl", "9.9", 'deepspeed>=99; extra == "deepspeed"', 'peft>=0.0.1; extra == "lora"')
    installed("deepspeed", "0.1")
    installed("peft", "0.1")
    with pytest.raises(UserError, match="sweet_rl 9.9 wants deepspeed>=99, found 0.1"):
        checks().versions()


def test_a_package_that_a_step_needs_and_that_is_not_installed_is_named(monkeypatch):
    whole = checks(trainings=(CRITIC,), train_flags="--zero_stage 2 --lora_rank 4", env_model="70B")
    pages = Preflight(PreflightSettings("8B", hostname="h", env_model="human"), task_type="html")
    monkeypatch.setattr(sys, "path", [])
    for run, names, extras in (
        (whole, "torch, transformers, accelerate, vllm, deepspeed, peft", "vllm,deepspeed,lora"),
        (checks(), "torch, transformers, accelerate", "train"),
        (pages, "torch, .*, selenium, pillow, datasets, websocket_client, efficientnet_lite_pytorch", "frontend"),
    ):
        with pytest.raises(UserError, match=rf"^not installed: {names}\. pip install .* -e '\.\[{extras}\]'"):
            run.versions()


def test_the_line_that_installs_names_what_is_missing_alone(monkeypatch):
    run = checks(trainings=(CRITIC,), train_flags="--zero_stage 2 --lora_rank 4")
    monkeypatch.setattr(preflight, "installed", lambda name: None if name == "peft" else "9")
    with pytest.raises(UserError, match=r"^not installed: peft\. pip install -c constraints-gpu\.txt -e '\.\[lora\]'"):
        run.versions()


def test_packages_alone_are_checked_where_asked_and_pages_need_a_browser():
    assert [what for what, _ in checks(packages_only=True, tasks=("no file",)).checks()] == ["versions"]
    pages = Preflight(PreflightSettings("8B", packages_only=True), task_type="html")
    assert [what for what, _ in pages.checks()] == ["versions", "browser"]


def test_the_last_line_names_the_command_to_give_again(monkeypatch, capsys):
    monkeypatch.setattr(preflight, "installed", lambda name: None)
    settings = PreflightSettings("8B", packages_only=True, recipe="bash scripts/run_one_gpu.sh")
    with pytest.raises(NothingMade, match=r"1 of the checks failed.*again: bash scripts/run_one_gpu\.sh\.$"):
        preflight.preflight(settings)
    assert "FAILED: versions: not installed" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a torch that finds no GPU")
def test_a_gpu_that_the_driver_has_and_torch_cannot_use_is_refused(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100'\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="(?s)H100.*built for CPUs.*constraints-gpu.txt"):
        checks().check_gpus()
    assert "--cpu" in checks(cpu=True).check_gpus()
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(UserError, match="driver for CUDA 13.0"):
        checks().check_gpus()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES='' hides them"):
        checks().check_gpus()
    program.write_text("#!/bin/sh\necho 'Driver/library version mismatch'; exit 18\n")
    with pytest.raises(UserError, match="library version mismatch"):
        checks().check_gpus()


def test_without_a_driver_there_are_no_gpus_of_a_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert preflight.driver_gpus() == ""


def test_every_process_of_a_training_needs_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _: "H100")
    monkeypatch.setattr("sweet_rl.models.weights.gpu_memory", lambda free: [80 * 10**9] * 8)
    assert "can use 8 (H100)" in checks(launch="torchrun --nproc_per_node 4", at_once=2).check_gpus()
    with pytest.raises(UserError, match="16 processes for 8 GPUs"):
        checks(launch="torchrun --nproc_per_node 8", at_once=2).check_gpus()


def test_a_folder_needs_its_configuration_and_all_its_weights(tiny_chat_model, tmp_path):
    assert "can be read" in checks().check_model(tiny_chat_model)
    folder = Path(shutil.copytree(tiny_chat_model, tmp_path / "model"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=str(folder)):
        checks().check_model(str(folder))


def test_a_large_model_needs_a_gpu(tiny_chat_model, monkeypatch):
    monkeypatch.setattr("sweet_rl.models.weights.parameter_count", lambda _: 8 * 10**9)
    with pytest.raises(UserError, match="8.0 billion weights, and torch can use no GPU"):
        checks().check_model(tiny_chat_model)
    assert "can be read" in checks(cpu=True).check_model(tiny_chat_model)


@pytest.mark.parametrize("config", [
    MambaConfig(vocab_size=32, hidden_size=8, state_size=2, num_hidden_layers=1),
    Gemma3nTextConfig(
        vocab_size=32, vocab_size_per_layer_input=32, hidden_size=8, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=4, num_kv_shared_layers=0,
    ),
])  # fmt: skip
def test_a_model_of_other_layers_than_llamas_can_be_read_and_its_memory_is_not_calculated(config, tmp_path):
    config.save_pretrained(tmp_path)
    save_file({"any": torch.zeros(1)}, tmp_path / "model.safetensors")
    run = with_training("", agent_model=str(tmp_path))
    assert "can be read" in run.check_model(str(tmp_path))
    assert run.shapes[str(tmp_path)].parameters == parameter_count(tmp_path) > 0
    assert "nothing is calculated" in run.check_training(run.trainings[0])


@pytest.fixture
def hub(tiny_chat_model, tmp_path, monkeypatch):
    files = {f"{NAME}/{path.name}": path.read_bytes() for path in Path(tiny_chat_model).iterdir()}
    with HubServer(files) as server:
        use_hub(monkeypatch, server, tmp_path / "cache")
        monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path / "cache"), raising=False)
        yield server


def test_a_model_on_the_hub_is_asked_for_without_its_weights(hub):
    run = checks()
    assert "to download" in run.check_model(NAME) and run.downloads[NAME] == 2 * run.shapes[NAME].parameters
    assert not any("model.safetensors" in path for method, path in hub.requests if method == "GET")


def test_weights_in_the_hubs_cache_are_opened(hub, tmp_path):
    from huggingface_hub import hf_hub_download

    folder = Path([hf_hub_download(NAME, file.rpartition("/")[2]) for file in hub.files][0]).parent
    assert "in the hub's cache" in checks().check_model(NAME)
    weights = (folder / "model.safetensors").resolve()
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match=f"model.safetensors is damaged.*`hf download {NAME}` completes it"):
        checks().check_model(NAME)


def test_a_model_whose_weights_the_hub_does_not_have_is_refused(hub):
    del hub.files[f"{NAME}/model.safetensors"]
    with pytest.raises(UserError, match="the hub has none of model.safetensors"):
        checks().check_model(NAME)


def test_a_model_that_the_hub_does_not_give_is_refused_with_what_to_do(hub, monkeypatch):
    hub.gated.add(NAME)
    with pytest.raises(UserError, match=f"huggingface.co/{NAME} and `hf auth login`"):
        checks().check_model(NAME)
    for name in ("owner/nothing", "runs/agent/checkpoint"):
        with pytest.raises(UserError, match="Correct the name"):
            checks().check_model(name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=f"hf download {NAME}"):
        check_on_hub(NAME)


def test_a_file_of_tasks_has_a_first_row(tmp_path):
    path = tmp_path / "tasks.jsonl"
    with pytest.raises(UserError, match="does not exist"):
        check_tasks(str(path))
    path.write_text("\n")
    with pytest.raises(UserError, match="no records"):
        check_tasks(str(path))
    path.write_text('{"problem_description": "x"}\n')
    with pytest.raises(UserError, match=f"{path}, line 1.*ground_truth"):
        check_tasks(str(path))
    path.write_text('{"problem_description": "x", "ground_truth": "y"}\nnot read')
    assert str(path) in check_tasks(str(path))


def test_a_server_is_asked_what_it_serves():
    with ApiServer(lambda body: refusal(404, f"no model {body['model']}")) as server:
        assert server.url in checks(env_model=MODEL, hostname=server.url).check_human()
        with pytest.raises(UserError, match=MODEL):
            checks(env_model="another", hostname=server.url).check_human()
    with pytest.raises(UserError, match=f"vllm serve {MODEL}"):
        checks(env_model=MODEL, hostname=server.url).check_human()


def test_a_training_of_the_paper_fits_eight_gpus_and_not_one():
    need = training_memory(LLAMA_8B, TrainingSetup(2 * 8192, 8, zero_stage=3)).total / 1e9
    for flags, gpus, free, fits in [
        ("", 8, 80e9, True),
        ("", 1, 80e9, False),
        ("--lora_rank 16 --zero_stage none", 1, 80e9, True),
        ("", 8, 20e9, False),
    ]:
        run = with_training(flags, gpus, free)
        if fits:
            text = run.check_training(run.trainings[0])
            assert flags or f"{need:.1f} GB a GPU, calculated" in text
        else:
            with pytest.raises(UserError, match="nvidia-smi.*--lora_rank"):
                run.check_training(run.trainings[0])


@pytest.mark.parametrize("flags, gigabytes", [
    ("", 2 * 96.4 + 16.1),
    ("--zero_stage 2", 2 * 112.4 + 16.1),
    ("--keep best --zero_stage 3", 3 * 96.4 + 16.1),
    ("--zero_stage none", 2 * 96.4 + 16.1),
    ("--lora_rank 16", 2 * 0.5 + 16.1),
])  # fmt: skip
def test_the_disk_holds_the_checkpoints_that_are_kept_and_the_model(flags, gigabytes, monkeypatch, tmp_path):
    run = with_training(flags, output_dir=str(tmp_path / "runs" / "new"))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=(gigabytes + 1) * 1e9))
    assert str(tmp_path) in run.check_disk()
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=(gigabytes - 1) * 1e9))
    with pytest.raises(UserError, match="Make room"):
        run.check_disk()


def test_what_an_earlier_start_wrote_counts_as_room_and_downloads_need_more(monkeypatch, tmp_path):
    run = with_training("", output_dir=str(tmp_path))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=26 * LLAMA_8B.parameters - 1e6))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError):
        run.check_disk()
    (tmp_path / "critic").mkdir()
    (tmp_path / "critic" / "model.safetensors").write_bytes(bytes(2_000_000))
    run.check_disk()
    run.downloads["8B"] = 16 * 10**9
    with pytest.raises(UserError):
        run.check_disk()


def test_weights_that_an_output_folder_links_to_are_no_room(monkeypatch, tmp_path):
    output = tmp_path / "runs"
    output.mkdir()
    (tmp_path / "model.safetensors").write_bytes(bytes(2_000_000))
    (output / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    (output / "removed.safetensors").symlink_to(tmp_path / "removed.safetensors")
    run = with_training("", output_dir=str(output))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=26 * LLAMA_8B.parameters - 1e6))
    with pytest.raises(UserError, match="Make room"):
        run.check_disk()


def test_a_quotation_that_is_not_closed_is_a_wrong_setting():
    with pytest.raises(UserError, match="--train_flags .*quotation"):
        with_training("--lora_rank '16")


@pytest.mark.parametrize("launch, expected", [
    ("python", (1, 1)),
    ("torchrun --nproc_per_node 8", (8, 8)),
    ("torchrun --nnodes=2 --nproc-per-node=gpu", (4, 8)),
    ("deepspeed", (4, 4)),
    ("deepspeed --num_gpus 2", (2, 2)),
])  # fmt: skip
def test_the_processes_of_a_launcher(launch, expected):
    assert processes_of(launch, gpus=4) == expected
