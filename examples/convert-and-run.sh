#!/bin/sh
# A source directory becomes one .slm file; inspect it, ask it something.
#   examples/convert-and-run.sh [SOURCE_DIR [QUESTION]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
source=${1:-$root/models/slm-demo}
question=${2:-"The cat is red. The dog is blue. What colour is the dog?"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/dev" slm --store "$work/store" convert "$source" -o "$work/model.slm"
"$root/dev" slm inspect "$work/model.slm" | head -n 20
"$root/dev" slm run "$work/model.slm" --chat "$question"
