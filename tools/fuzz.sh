#!/usr/bin/env bash
# tools/fuzz.sh SECONDS: run every fuzz target of build/fuzz, sharing the time. What they learn stays in .work/fuzz; an
# input that breaks one is kept there as well, and its path is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?seconds}

shopt -s nullglob
targets=()
for target in build/fuzz/fuzz_*; do [ -f "$target" ] && [ -x "$target" ] && targets+=("$target"); done
if [ ${#targets[@]} = 0 ]; then
  echo "fuzz.sh: no build/fuzz/fuzz_*: build the fuzz preset first" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=${target##*/fuzz_}
  corpus=.work/fuzz/$name
  mkdir -p "$corpus"
  # The demo's model is a whole, valid seed of every reader here.
  cp -n demo/digits.pt2 "$corpus/digits.pt2"
  # The demo is 84 kB; longer inputs only slow the mutations down.
  echo "fuzz_$name, $((seconds / ${#targets[@]})) s"
  "$target" -max_total_time=$((seconds / ${#targets[@]})) -max_len=131072 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix=".work/fuzz/$name-" -print_final_stats=1 "$corpus" 2>&1 | grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse)' | tail -40
done
