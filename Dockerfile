# The GPU pipeline: training, ranking and vLLM in one image.
#   docker build --build-arg UID="$(id -u)" -t sweet_rl .
#   docker run --gpus all --ipc host -v "$PWD/data:/workspace/data" -v "$PWD/runs:/workspace/runs" \
#       -v ~/.cache/huggingface:/home/agent/.cache/huggingface -e HUMAN_GPUS=0,1,2,3 \
#       sweet_rl bash scripts/run_backend.sh
# The sandbox needs user namespaces for its level "strict"; without them it uses "seccomp" and prints so.
FROM nvidia/cuda:12.8.1-devel-ubuntu22.04

ENV DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-dev python3-venv git \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH

# An ordinary user, who may write to the mounted folders if the id is that of their owner.
ARG UID=1000
RUN useradd --create-home --uid "$UID" agent && mkdir -p /workspace && chown agent /workspace
WORKDIR /workspace
COPY --chown=agent . .
RUN pip install --upgrade pip && pip install -e '.[vllm,deepspeed,lora,plots]'
USER agent
CMD ["bash"]
