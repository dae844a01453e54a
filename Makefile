# Two commands do everything on a fresh Debian 12: `make demo` and `make test`. Both install what is missing, build in
# build/ and run; both can be run again. `make serve-demo` does the same with a server and three clients.
BUILD ?= build
JOBS ?= $(shell nproc)

.PHONY: demo serve-demo test test-one format test-slow test-real bench package setup configure clean

demo: configure
	@echo "== building draftproof"
	@cmake --build $(BUILD) --parallel $(JOBS) --target draftproof
	@tools/demo.sh $(BUILD)/draftproof

serve-demo: configure
	@tools/install_packages.sh curl
	@echo "== building draftproof"
	@cmake --build $(BUILD) --parallel $(JOBS) --target draftproof
	@tools/serve_demo.sh $(BUILD)/draftproof

test: configure
	@echo "== building draftproof and its tests"
	@cmake --build $(BUILD) --parallel $(JOBS)
	@echo "== running the fast tests"
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $(JOBS) -L fast

# `make test-one FILTER=ShortContext.*`: builds and runs the tests of the folder that has this suite.
test-one: configure
	@folder=$$(grep -rlE "TEST(_F|_P)?\($(firstword $(subst ., ,$(FILTER)))," tests --include=*_test.cpp | head -1 | cut -d/ -f2); \
	test -n "$$folder" || { echo "no file in tests/ has this suite: FILTER=Suite.Test, $(FILTER)" >&2; exit 1; }; \
	cmake --build $(BUILD) --parallel $(JOBS) --target $${folder}_test && \
	$(BUILD)/$${folder}_test --gtest_filter='$(FILTER)'

# Lays out every source as .clang-format says.
format:
	@tools/install_packages.sh clang-format
	@git ls-files '*.h' '*.cpp' '*.inc' | xargs clang-format -i

test-slow: configure
	@tools/install_packages.sh chromium clang-format dpkg-dev file g++-aarch64-linux-gnu locales pybind11-dev \
	  python3-dev python3-numpy python3-venv qemu-user-static
	@cmake $(BUILD) > $(BUILD).log || { cat $(BUILD).log; exit 1; }; rm -f $(BUILD).log  # finds what came just now
	@cmake --build $(BUILD) --parallel $(JOBS)
	@echo "== running the exhaustive tests"
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $(JOBS) -L slow

# Two real checkpoints beside llama.cpp and transformers, with what pip can get; prints figures.
test-real: configure
	@tools/install_packages.sh python3-venv
	@cmake --build $(BUILD) --parallel $(JOBS) --target draftproof
	@ctest --test-dir $(BUILD) --verbose --no-tests=error -L real

bench: configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target draftproof
	@$(BUILD)/draftproof synth --shape qwen3-0.6b --type q8_0 $(BUILD)/qwen3-0.6b-q8_0.gguf
	@$(BUILD)/draftproof bench decode $(BUILD)/qwen3-0.6b-q8_0.gguf

package: configure
	@tools/install_packages.sh dpkg-dev file pybind11-dev python3-dev python3-numpy
	@cmake $(BUILD) > $(BUILD).log || { cat $(BUILD).log; exit 1; }; rm -f $(BUILD).log  # finds what came just now
	@cmake --build $(BUILD) --parallel $(JOBS) --target draftproof draftproof_python
	@cd $(BUILD) && umask 022 && cpack

configure: setup
	@test -f $(BUILD)/build.ninja || { echo "== configuring in $(BUILD)"; cmake -S . -B $(BUILD) -G Ninja > $(BUILD).log || { cat $(BUILD).log; exit 1; }; rm -f $(BUILD).log; }

setup:
	@tools/install_packages.sh

clean:
	rm -rf $(BUILD)
