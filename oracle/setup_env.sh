#!/bin/sh
# Installs the locked environment of the oracle into .venv/oracle (ignored by git) and prints
# the path of its Python. Does nothing when the environment was made from this very lock file.
#   oracle/setup_env.sh [DIRECTORY]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/../.venv/oracle}
lock=$here/requirements.lock
uv_version=0.13.9
want=$(sha256sum "$lock" | cut -c1-64)

if [ -f "$target/lock.sha256" ] && [ "$(cat "$target/lock.sha256")" = "$want" ]; then
  echo "$target/bin/python"
  exit 0
fi
uv=$(command -v uv || true)
if [ -z "$uv" ]; then
  tool=$target-uv
  [ -x "$tool/bin/uv" ] || { python3 -m venv "$tool" && "$tool/bin/pip" install -q "uv==$uv_version" >&2; }
  uv=$tool/bin/uv
fi
python=$(command -v python3.11 || command -v python3)
"$uv" venv -q --clear --python "$python" "$target" >&2
# No package is accepted whose hash is not in the lock file, and none is built from source.
"$uv" pip sync -q --require-hashes --only-binary :all: --python "$target/bin/python" "$lock" >&2
# Compile what the oracle imports, also where Python is told to write no bytecode: 20 s less for each later start.
env -u PYTHONDONTWRITEBYTECODE "$target/bin/python" -c \
  "import torch, transformers, mpmath, jinja2; from transformers import AutoModelForCausalLM, AutoTokenizer; \
from transformers.models.llama import modeling_llama" >&2
echo "$want" >"$target/lock.sha256"
echo "$target/bin/python"
