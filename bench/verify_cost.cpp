// SPDX-License-Identifier: MIT
// What a verification of M rows costs beside one row: a whole pass of a target, all logits, at a given context. The
// row counts take turns inside one run, so that a noisy machine disturbs all alike; ratios are taken turn by turn.
//
//   verify_cost [TARGET [CONTEXT [TURNS]]]      default: the shipped target, 64 positions, 101 turns
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "ref/base/error.h"
#include "ref/models/models.h"

namespace {

using namespace draftproof;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Kernels& kernels, const std::string& path, int context, int turns) {
  const auto target = load_model(path, kernels);
  const std::vector<int> sizes{1, 2, 4, 8, 16};
  const auto cache = target->new_cache(context + sizes.back(), std::max(context, sizes.back()));
  Outputs outputs;
  std::vector<Token> text;
  for (int i = 0; i < context + sizes.back(); ++i) text.push_back((i * 37) % target->vocabulary());
  {
    Transaction window = cache->begin(context);
    target->forward({.tokens = std::span(text).first(static_cast<std::size_t>(context)), .logits_from = context},
                    *cache, outputs);
    window.commit(context);
  }
  std::vector<std::vector<double>> seconds(sizes.size());
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto tokens =
          std::span(text).subspan(static_cast<std::size_t>(context), static_cast<std::size_t>(sizes[i]));
      const Transaction forgotten = cache->begin(sizes[i]);
      const auto start = std::chrono::steady_clock::now();
      target->forward({.tokens = tokens}, *cache, outputs);
      seconds[i].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  fmt::print("{} {}, {} threads, context {}\n", path, kernels.name, threads(), context);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t turn = 0; turn < seconds[i].size(); ++turn) ratios.push_back(seconds[i][turn] / seconds[0][turn]);
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    fmt::print("  {:>2} rows  {:8.3f} ms   cost over one row {:.2f} ({:.2f}..{:.2f})\n", sizes[i],
               1e3 * median(seconds[i]), median(ratios), *least, *most);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "fixtures/models/tale-target";
  const int context = argc > 2 ? std::max(1, std::atoi(argv[2])) : 64;
  const int turns = argc > 3 ? std::max(1, std::atoi(argv[3])) : 101;
  try {
    for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
      if (!(*table)->supported() || unfit(**table)[0] != '\0') continue;
      for (const int count : {1, 2}) {
        set_threads(count);
        with_workers([&] { measure(**table, path, context, turns); });
      }
    }
  } catch (const Error& wrong) {
    fmt::print(stderr, "verify_cost: {}\n", wrong.what());
    return 3;
  }
}
