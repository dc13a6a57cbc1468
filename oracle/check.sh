#!/bin/sh
# Installs the locked environment, runs the oracle's own tests, regenerates the vectors that the reference libraries
# wrote and every committed golden file whose source is given, and compares (docs/spec/oracle.md). Exit 1 if one differs.
#   SLM=PATH oracle/check.sh NAME=SOURCE_DIRECTORY...      SLM: the command; NAME: a folder under vectors/ with
#                                                          cases.jsonl and *.golden
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$here/../dev" oracle-env
python=$here/../.venv/oracle/bin/python
export PYTHONPATH="$here"
if grep -n '://' "$here/requirements.lock"; then
  echo "requirements.lock records a download address" >&2
  exit 1
fi
[ -x "${SLM:?}" ] || { echo "SLM names no command: $SLM" >&2; exit 1; }
export SLM
for pair in "$@"; do
  case $pair in smollm2=*) [ -d "${pair#*=}" ] && export ORACLE_SMOLLM2="${pair#*=}" ;; esac
done
status=0
(cd "$here" && "$python" -m unittest discover -s tests -t .) || status=1
for generator in tools/gen_tokenizer_vectors.py tools/gen_chat_vectors.py tests/support/make_rope_vectors.py tests/support/make_config_vectors.py; do
  echo "$generator:"
  "$python" "$here/../$generator" --check || status=1
done
not_run=0
for pair in "$@"; do
  name=${pair%%=*} source=${pair#*=} folder=$here/../vectors/${pair%%=*}
  if [ ! -d "$source" ]; then
    echo "not-run: oracle-check: $name: its source directory is absent"
    not_run=$((not_run + 1))
    continue
  fi
  found=0
  for file in "$folder"/*.golden; do
    [ -e "$file" ] || continue
    found=1
    echo "$name:"
    "$python" -m slm_oracle check "$file" --source "$source" --cases "$folder/cases.jsonl" || status=1
  done
  [ "$found" = 1 ] || { echo "no golden file under vectors/$name" >&2; status=1; }
done
echo "oracle-check: not-run: $not_run"
if [ "$not_run" != 0 ] && [ -n "${CI:-}" ]; then
  echo "CI does not pass with evidence that was not regenerated" >&2
  status=1
fi
exit $status
