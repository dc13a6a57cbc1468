#!/bin/sh
# Converting twice gives the same file; one flipped bit is refused, with its place.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for copy in first second; do
  "$root/dev" slm --store "$work/$copy" convert "$root/models/slm-demo" -o "$work/$copy.slm"
done
sha256sum "$work/first.slm" "$work/second.slm"
cmp "$work/first.slm" "$work/second.slm" && echo "the same bytes"

python3 - "$work/second.slm" <<'PYTHON'
import sys

with open(sys.argv[1], "r+b") as file:
    file.seek(-4096, 2)
    byte = file.read(1)[0]
    file.seek(-4096, 2)
    file.write(bytes([byte ^ 1]))
PYTHON
if "$root/dev" slm inspect "$work/second.slm" >"$work/out"; then
  echo "a flipped bit went unnoticed" && exit 1
else
  echo "refused with exit status $?"
fi
