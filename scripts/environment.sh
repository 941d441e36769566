# shellcheck shell=bash
# Sourced: makes and enters the virtual environment (SWEET_RL_VENV, default .venv; PYTHON names the interpreter).
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
environment="${SWEET_RL_VENV:-$here/.venv}" interpreter="${PYTHON:-python3}"
if [ ! -f "$environment/bin/activate" ]; then
    if ! "$interpreter" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then # as setup.py says
        echo "$interpreter is $("$interpreter" --version 2>&1); Python 3.11 or newer is needed: PYTHON=python3.12" >&2
        exit 2
    fi
    "$interpreter" -m venv "$environment"
fi
# shellcheck disable=SC1091
source "$environment/bin/activate"

# install EXTRAS [MODULE...]: the package with these extras, unless the modules are there. On Linux without an NVIDIA GPU
# torch is the CPU build if the package index has it: the default one brings gigabytes of CUDA.
install() {
    local pip="python -m pip install --quiet --disable-pip-version-check" extras="$1" pin build=""
    shift
    if [ $# != 0 ] && (cd / && python -c "import importlib, sys; list(map(importlib.import_module, sys.argv[1:]))" "$@") \
        2>/dev/null; then
        return
    fi
    echo "installing sweet_rl$extras with torch into ${environment#"$PWD"/}, which takes a few minutes"
    pin=$(grep '^torch==' "$here/constraints.txt")
    if [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null; then build="+cpu"; fi
    $pip "$pin$build" 2>/dev/null || $pip "$pin"
    $pip -c "$here/constraints.txt" -e "$here$extras"
}
install_browser() { # the tests of pages need one; without one, and without the right to install it, they are skipped
    local program as_root="" fonts="fonts-liberation fonts-dejavu-core fonts-wqy-zenhei fonts-noto-color-emoji"
    local packages="chromium chromium-driver $fonts"
    for program in chromium chromium-browser google-chrome google-chrome-stable chrome; do
        if command -v "$program" >/dev/null; then return; fi
    done
    if [ "$(id -u)" != 0 ]; then as_root="sudo -n"; fi
    # shellcheck disable=SC2086
    if command -v apt-get >/dev/null && $as_root true 2>/dev/null && { $as_root apt-get update -qq || true; } &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null; then
        return
    fi
    echo "no browser: the tests of pages will be skipped. To install one: apt-get install -y $packages" >&2
}
