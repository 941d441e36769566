# The GPU pipeline: training, ranking, vLLM and a browser in one image, with the versions of constraints-gpu.txt. Its torch
# is built for CUDA 13.0, which wants a driver from 580 on.
#   docker build --build-arg UID="$(id -u)" -t sweet_rl .
#   docker run --gpus all --ipc host -v "$PWD/data:/workspace/data" -v "$PWD/runs:/workspace/runs" \
#       -v ~/.cache/huggingface:/home/agent/.cache/huggingface -e HUMAN_GPUS=0,1,2,3 \
#       sweet_rl bash scripts/run_backend.sh
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04

ENV DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
# Chromium from an archive of its own: Ubuntu's browsers are snaps, which no container runs.
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-dev python3-venv git software-properties-common \
    && add-apt-repository -y ppa:xtradeb/apps \
    && apt-get install -y --no-install-recommends chromium chromium-driver \
        fonts-liberation fonts-dejavu-core fonts-wqy-zenhei fonts-noto-color-emoji \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH

# An ordinary user, who may write to the mounted folders if the id is that of their owner. The image's own has id 1000.
ARG UID=1000
RUN userdel --remove ubuntu && useradd --create-home --uid "$UID" agent && mkdir -p /workspace && chown agent /workspace
WORKDIR /workspace
COPY --chown=agent . .
RUN pip install --upgrade pip \
    && pip install -c constraints-gpu.txt -e '.[vllm,deepspeed,lora,workflow,frontend]'
USER agent
CMD ["bash"]
