#!/usr/bin/env bash
# tools/fuzz.sh BUILD SECONDS: run every fuzz target of a build folder (build/fuzz, build/asan) for that long. What they
# learn stays in .work/fuzz; an input that breaks one is kept there as well, and its path is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?the build folder}
seconds=${2:?seconds}

shopt -s nullglob
targets=()
for target in "$build"/fuzz_*; do [ -f "$target" ] && [ -x "$target" ] && targets+=("$target"); done
if [ ${#targets[@]} = 0 ]; then
  echo "fuzz.sh: no $build/fuzz_*: build the preset fuzz or asan first" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=${target##*/fuzz_}
  corpus=.work/fuzz/$name
  mkdir -p "$corpus"
  options=(-max_total_time="$seconds" -max_len=131072 -timeout=25 -rss_limit_mb=2048
    -artifact_prefix=".work/fuzz/$name-" -print_final_stats=1)
  [ ! -f "fuzz/$name.dict" ] || options+=(-dict="fuzz/$name.dict")
  seeds=()
  [ ! -d "fuzz/seeds/$name" ] || seeds+=("fuzz/seeds/$name")
  [ "$name" != pt2 ] || cp -n demo/digits.pt2 "$corpus"
  [[ "$name" != pte && "$name" != method ]] || seeds+=(test/pte)
  echo "fuzz_$name, $seconds s"
  "$target" "${options[@]}" "$corpus" "${seeds[@]}" 2>&1 | grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse|RELOAD)|DE: ' | tail -40
done
