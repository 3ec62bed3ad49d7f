# make demo and make test do everything on a fresh Debian 12, installs included; the rest expects one of them before.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
PYTHON := .venv/bin/python
SOURCES = $(shell git ls-files '*.h' '*.cpp')

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export CTEST_PARALLEL_LEVEL := $(JOBS)

.PHONY: help demo test bench fuzz asan tsan aarch64 format tidy clean

help:
	@echo "make demo     build, and classify the digits of demo/: in float on the CPU, quantized on the emulated NPU"
	@echo "make test     build, and run every test"
	@echo "make bench    time models side by side with ONNX Runtime"
	@echo "make fuzz     fuzz readers and runtime, each for $(FUZZ_SECONDS) s (FUZZ_SECONDS=n)"
	@echo "make asan     run the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make tsan     run the tests under ThreadSanitizer"
	@echo "make aarch64  cross build for arm64 and run the tests under qemu"
	@echo "make format   clang-format every source"
	@echo "make tidy     clang-tidy every source"
	@echo "make clean    remove build/ and .work/"

demo:
	tools/install.sh build
	cmake --preset release
	cmake --build --preset release --target sixfold
	build/release/sixfold run demo/digits.pt2 --engine cpu --npz demo/digits_test.npz --labels labels
	mkdir -p .work
	build/release/sixfold compile demo/digits.pt2 --backend htp --soc SM8650 --engine emulator --precision 8a8w --calib demo/digits_calib.npz -o .work/digits.pte
	build/release/sixfold run .work/digits.pte --engine emulator --npz demo/digits_test.npz --labels labels

build-%:
	cmake --preset $*
	cmake --build --preset $*

# Every suite runs even when one before it failed, so that one run shows all there is to mend.
test:
	tools/install.sh test
	$(MAKE) --no-print-directory build-release build-fuzz
	cmake --build --preset release --target qnn_libraries
	failed=""; \
	ctest --preset release || failed+=" release"; \
	tools/fuzz.sh build/fuzz 25 || failed+=" fuzz"; \
	$(PYTHON) -m pytest test || failed+=" pytest"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi

asan: build-asan
	ctest --preset asan

tsan: build-tsan
	ctest --preset tsan

aarch64:
	tools/install.sh aarch64
	$(MAKE) --no-print-directory build-aarch64
	ctest --preset aarch64

bench:
	tools/install.sh test
	$(MAKE) --no-print-directory build-release
	$(PYTHON) bench/models.py

fuzz:
	tools/install.sh test
	$(MAKE) --no-print-directory build-asan
	tools/fuzz.sh build/asan $(FUZZ_SECONDS)

format:
	clang-format -i $(SOURCES)

tidy: build-release
	run-clang-tidy -quiet -p build/release -j $(JOBS) $(filter %.cpp,$(SOURCES))

clean:
	rm -rf build .work
