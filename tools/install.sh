#!/usr/bin/env bash
# tools/install.sh build|test|aarch64: install what that job needs on Debian 12. Quick when all of it is there.
#   build    compiler and libraries from Debian; no Python
#   test     build, and clang; torch, ExecuTorch and ONNX Runtime as peers, in .venv
#   aarch64  the arm64 compiler and emulator, and arm64 libraries in .work/aarch64
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian's package file of oneDNN asks for OpenCL, though nothing here uses it.
libraries=(zlib1g-dev libsimdjson-dev libdnnl-dev ocl-icd-opencl-dev libhwy-dev libflatbuffers-dev libxxhash-dev libjpeg-dev libpng-dev)
build=(cmake ninja-build g++ ccache flatbuffers-compiler libcli11-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev "${libraries[@]}")
test=(clang libclang-rt-14-dev libomp-dev clang-format clang-tidy python3 python3-venv openmpi-bin)
aarch64=(g++-aarch64-linux-gnu qemu-user)

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "install.sh: not root, and there is no sudo to install: $missing" >&2
    exit 1
  fi
}

apt_install() {
  missing=""
  for name in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || missing+=" $name"
  done
  [ -n "$missing" ] || return 0
  echo "installing$missing"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
  # Package lists may be absent, or too old to find what they name: refresh them, then try once more.
  # shellcheck disable=SC2086
  as_root "${install[@]}" $missing >/dev/null 2>&1 || { as_root apt-get update -q && as_root "${install[@]}" $missing; }
}

python_install() {
  local stamp=.venv/installed.txt
  cmp -s test/requirements.txt "$stamp" && return 0
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install -r test/requirements.txt
  # Its own requirements would replace onnxruntime by another build of it; only the libraries inside are used.
  .venv/bin/python -m pip install --no-deps onnxruntime-qnn==2.5.0
  cp test/requirements.txt "$stamp"
}

# Debian's libdnnl-dev and libsimdjson-dev cannot stand beside those of another architecture: unpack arm64 packages, with
# all they depend on, into a folder of their own.
sysroot_install() {
  local root=$PWD/.work/aarch64 apt=$PWD/.work/apt-arm64
  [ "$(cat "$root/packages.txt" 2>/dev/null)" != "$*" ] || return 0
  rm -rf "$root" "$apt"
  mkdir -p "$root" "$apt/lists/partial" "$apt/archives/partial"
  touch "$apt/status"
  local get=(apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false
    -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache::Archives="$apt/archives"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root -o Debug::NoLocking=true)
  "${get[@]}" update
  "${get[@]}" install --download-only "$@"
  for package in "$apt"/archives/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$apt"
  echo "$*" >"$root/packages.txt"
}

case "${1:-}" in
  build)
    apt_install "${build[@]}"
    ;;
  test)
    apt_install "${build[@]}" "${test[@]}"
    python_install
    ;;
  aarch64)
    apt_install "${build[@]}" "${aarch64[@]}"
    sysroot_install "${libraries[@]}" libcli11-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev libstdc++-12-dev
    ;;
  *)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
