// SPDX-License-Identifier: MIT
// What it costs to keep a part of the pending rows of gated delta net layers: a replay of the kept rows, or a copy of
// the state for every row, written while the pass runs. Prints microseconds for each layer, median (least..most) of
// interleaved repeats over as many layers as do not fit the caches:
//
//   replay_cost VALUE_HEADS [ROWS [TABLE [THREADS [LAYERS [REPEATS]]]]]
//
// Key heads are 16, dimensions 128. Not part of our build:
//
//   g++ -std=c++20 -O3 -fopenmp -I. bench/replay_cost.cpp build/libdraftproof_kernels.a -ldl -o replay_cost
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/threads.h"

namespace {

using namespace draftproof;

struct LayerBuffers {
  Aligned<float> settled, working, copies, folded, q, out;
};

struct TimedCase {
  std::string name;
  std::function<void(LayerBuffers&)> run;
  std::vector<double> microseconds;
};

int argument(int count, char** values, int index, int default_value) {
  return index < count ? std::atoi(values[index]) : default_value;
}

}  // namespace

int main(int count, char** values) {
  const DeltaShape shape = {16, argument(count, values, 1, 32), 128, 128};
  const int rows = argument(count, values, 2, 16);
  const Kernels* const kernels = count > 3 ? find_kernels(values[3]) : &best_kernels();
  if (kernels == nullptr || !kernels->supported()) return std::puts("no such table here"), 1;
  set_threads(argument(count, values, 4, 1));
  const int layers_count = argument(count, values, 5, 12);
  const int repeats = argument(count, values, 6, 15);

  const std::size_t state = delta_state_floats(shape);
  const std::ptrdiff_t keys = 16 * 128;
  const std::ptrdiff_t values_count = std::ptrdiff_t{shape.value_heads} * 128;
  const std::ptrdiff_t stride = keys + values_count + 2 * shape.value_heads;
  std::vector<LayerBuffers> layers(static_cast<std::size_t>(layers_count));
  std::uint64_t seed = 1;
  const auto fill = [&](Aligned<float>& to, std::size_t size, float scale) {
    to = aligned<float>(size);
    for (std::size_t i = 0; i < size; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      to[i] = static_cast<float>(static_cast<std::int32_t>(seed >> 32)) * 0x1p-31f * scale;
    }
  };
  for (LayerBuffers& layer : layers) {
    fill(layer.settled, state, 0.1f);
    fill(layer.working, state, 0);
    fill(layer.copies, state * static_cast<std::size_t>(rows), 0);
    fill(layer.folded, static_cast<std::size_t>(rows * stride), 0.1f);
    fill(layer.q, static_cast<std::size_t>(rows * keys), 0.1f);
    fill(layer.out, static_cast<std::size_t>(rows * values_count), 0);
  }
  const auto rows_of = [&](const LayerBuffers& layer, int row) {
    const float* const at = layer.folded.get() + row * stride;
    return DeltaRows{at, at + keys, at + keys + values_count, at + keys + values_count + shape.value_heads, stride};
  };
  const auto pass = [&](LayerBuffers& layer, int row, int how_many, const float* from, float* to) {
    gated_delta_rule(*kernels, shape, rows_of(layer, row), layer.q.get() + row * keys, keys, how_many, from, to,
                     layer.out.get() + row * values_count);
  };

  std::vector<TimedCase> cases;
  cases.push_back(
      {"pass", [&](LayerBuffers& layer) { pass(layer, 0, rows, layer.settled.get(), layer.working.get()); }, {}});
  cases.push_back({"pass, each row's state left in a buffer of its own",
                   [&](LayerBuffers& layer) {
                     for (int row = 0; row < rows; ++row) {
                       float* const to = layer.copies.get() + static_cast<std::size_t>(row) * state;
                       pass(layer, row, 1, row == 0 ? layer.settled.get() : to - state, to);
                     }
                   },
                   {}});
  cases.push_back({"pass, each row's state copied",
                   [&](LayerBuffers& layer) {
                     for (int row = 0; row < rows; ++row) {
                       pass(layer, row, 1, row == 0 ? layer.settled.get() : layer.working.get(), layer.working.get());
                       std::memcpy(layer.copies.get() + static_cast<std::size_t>(row) * state, layer.working.get(),
                                   state * sizeof(float));
                     }
                   },
                   {}});
  for (const int kept : {1, rows / 4, rows / 2, rows - 1}) {
    cases.push_back({"replay of " + std::to_string(kept),
                     [&, kept](LayerBuffers& layer) {
                       gated_delta_rule(*kernels, shape, rows_of(layer, 0), nullptr, 0, kept, layer.settled.get(),
                                        layer.working.get(), nullptr);
                     },
                     {}});
  }
  with_workers([&] {
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (TimedCase& one : cases) {
        const auto begin = std::chrono::steady_clock::now();
        for (LayerBuffers& layer : layers) one.run(layer);
        const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
        one.microseconds.push_back(took.count() / layers_count);
      }
    }
  });
  std::printf("%s, %d threads, %d value heads, %d rows, a state of %zu KiB\n", kernels->name, threads(),
              shape.value_heads, rows, state * sizeof(float) / 1024);
  for (TimedCase& one : cases) {
    std::sort(one.microseconds.begin(), one.microseconds.end());
    std::printf("%-52s %8.0f (%.0f..%.0f)\n", one.name.c_str(), one.microseconds[one.microseconds.size() / 2],
                one.microseconds.front(), one.microseconds.back());
  }
}
