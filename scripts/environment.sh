# shellcheck shell=bash
# Sourced: makes and enters the virtual environment (SWEET_RL_VENV, default .venv; PYTHON names the interpreter), with
# torch first and pinned. On Linux without an NVIDIA GPU torch is the CPU build if the package index has it (the default
# one brings gigabytes of CUDA); PIP_EXTRA_INDEX_URL may name an index that does.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
environment="${SWEET_RL_VENV:-$here/.venv}" interpreter="${PYTHON:-python3}"
if [ -f "$environment/bin/activate" ]; then interpreter="$environment/bin/python"; fi
if ! "$interpreter" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then # as setup.py says
    echo "$interpreter is $("$interpreter" --version 2>&1); Python 3.11 or newer is needed. PYTHON=python3.12 names one;" \
        "remove the folder $environment if another one made it." >&2
    exit 2
fi
[ -f "$environment/bin/activate" ] || "$interpreter" -m venv "$environment"
# shellcheck disable=SC1091
source "$environment/bin/activate"

# install EXTRAS [MODULE...]: the package with these extras. Nothing if the modules are there; without modules, nothing if
# it was installed here before with the same setup.py and constraints.txt.
install() {
    local pip="python -m pip install --quiet --disable-pip-version-check --no-compile" extras="$1" pin build="" asked
    local record="$environment/installed$1"
    asked="$here $(cat "$here/setup.py" "$here/constraints.txt" | cksum)"
    shift
    [ $# != 0 ] || [ "$(cat "$record" 2>/dev/null)" != "$asked" ] || return 0
    [ $# = 0 ] || ! (cd / && python -c "import importlib, sys; list(map(importlib.import_module, sys.argv[1:]))" "$@") \
        2>/dev/null || return 0
    echo "installing sweet_rl$extras with torch into ${environment#"$PWD"/}, which takes a few minutes"
    pin=$(grep '^torch==' "$here/constraints.txt")
    if [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null; then build="+cpu"; fi
    case "torch==$(python -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null)" in
        "$pin" | "$pin+"*) ;;
        *) $pip "$pin$build" 2>/dev/null || $pip "$pin" ;;
    esac
    compile torch & # the largest, beside the installation of the others
    $pip -c "$here/constraints.txt" -e "$here$extras"
    wait $!
    compile ""
    echo "$asked" >"$record"
}
compile() { # compile FOLDER of the packages, on all cores, which pip does on one; without their tests and the hub's models
    python -c "import compileall, os, re, sys, sysconfig
folder = os.path.join(sysconfig.get_path('purelib'), sys.argv[1])
compileall.compile_dir(folder, quiet=2, workers=0, rx=re.compile('/tests/|/transformers/models/'))" "$1"
}
install_browser() { # the tests of pages need one; without one, and without the right to install it, they are skipped
    local program packages="chromium chromium-driver fonts-liberation fonts-dejavu-core" as_root=""
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
