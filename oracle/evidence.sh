#!/bin/sh
# Writes the bounded evidence of one model: OUT/{source,reference,truth}.golden, each with the measured repeatability
# in its receipt. Minutes; run by hand when model, cases or exporter change.
#   [MEASURE_CASES=N] oracle/evidence.sh SOURCE_DIRECTORY CASES_FILE OUT_DIRECTORY [EXPORT_OPTION...]
# A publisher's dtype of float32 makes `source` the same computation as `reference`: then it is measured once, and
# source.golden holds logits and text but not the stages again (GLD-05).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$1 cases=$2 out=$3
shift 3
"$here/../dev" oracle-env
python=$here/../.venv/oracle/bin/python
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"
export PYTHONPATH="$here"
dtype=$("$python" -c "import sys; from slm_oracle.reference import published_dtype; from slm_oracle.source import Source
print(published_dtype(Source(sys.argv[1])))" "$source")
for mode in reference truth source; do
  measured=$scratch/$mode.json
  taps=public
  if [ "$mode" = source ] && [ "$dtype" = f32 ]; then
    measured=$scratch/reference.json
    taps=none
  else
    # What earlier evidence measured on other processors is kept; for f32, where `source` is measured here too, of both.
    earlier=
    for old in "$mode" $([ "$mode" = reference ] && [ "$dtype" = f32 ] && echo source); do
      [ -e "$out/$old.golden" ] && earlier="$earlier --recorded $out/$old.golden"
    done
    # shellcheck disable=SC2086  # the words of a list
    "$python" -m slm_oracle repeatability --source "$source" --cases "$cases" --mode "$mode" --limit-cases "${MEASURE_CASES:-4}" \
      --out "$measured" $earlier
  fi
  "$python" -m slm_oracle export --source "$source" --cases "$cases" --mode "$mode" --bounded --taps "$taps" \
    --repeatability "$measured" --out "$out/$mode.golden" "$@"
  "$python" "$here/../independent/golden_read.py" "$out/$mode.golden"
done
