# Sourced by the pipelines: makes and enters the virtual environment, with torch first and pinned.
# On Linux without an NVIDIA GPU torch is the CPU build where the package sources at hand carry it (the default one
# brings gigabytes of CUDA with it); PIP_EXTRA_INDEX_URL may name a source that does.
# Defines pip_install and install_browser; PYTHON names the interpreter to start from, SWEET_RL_VENV the environment's folder.

environment="${SWEET_RL_VENV:-.venv}"
[ -f "$environment/bin/activate" ] || "${PYTHON:-python3}" -m venv "$environment"
# shellcheck disable=SC1091
source "$environment/bin/activate"

pip_install() {
    python -m pip install --quiet --disable-pip-version-check "$@"
}

install_browser() {
    # Pages are drawn by a browser. Without one, and without the right to install it, their tests skip, saying so.
    local program packages="chromium chromium-driver fonts-liberation fonts-dejavu-core" as_root=""
    for program in chromium chromium-browser google-chrome google-chrome-stable chrome firefox firefox-esr; do
        if command -v "$program" >/dev/null; then
            return
        fi
    done
    if [ "$(id -u)" != 0 ]; then
        as_root="sudo -n"
    fi
    if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
        echo "installing a browser for the tests of pages: $packages"
        # shellcheck disable=SC2086
        if { $as_root apt-get update -qq || true; } && $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends $packages >/dev/null; then
            return
        fi
    fi
    echo "no browser: the tests of pages will be skipped. To install one: apt-get install -y $packages" >&2
}

install_torch() {
    local pin
    pin=$(grep '^torch==' constraints.txt)
    if python -c "from importlib.metadata import version as v; assert v('torch').split('+')[0] == '${pin#torch==}'" \
        2>/dev/null; then
        return
    fi
    if [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null; then
        pip_install "$pin+cpu" 2>/dev/null || pip_install "$pin"
    else
        pip_install "$pin"
    fi
}

install_torch
