// SPDX-License-Identifier: MIT
#include "tools/verify_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "ref/drafts/drafts.h"

namespace draftproof {
namespace {

struct VariationWay {
  int threads;
  Verification verification;
};
/// The first is the fastest; it is used wherever one of them suffices. The last is for the best table only: what is
/// read again is computed by the kernels of a batched verification.
constexpr VariationWay ways[] = {{2, Verification::batched},
                                 {1, Verification::batched},
                                 {2, Verification::serial},
                                 {1, Verification::serial},
                                 {2, Verification::redecode}};

/// The lowest effort uses the first two: one is always rejected, the other gives plain tokens under every rule.
constexpr const char* all_controls[] = {"always-reject", "none", "perfect", "tree-test"};

/// Returns every length up to 16, then 32, 64, ..., below `limit`.
std::vector<int> lengths_below(int limit, Lengths lengths) {
  std::vector<int> list;
  for (int length = 1; length < limit && lengths != Lengths::none; length += length < 16 ? 1 : length) {
    const bool power = std::has_single_bit(static_cast<unsigned>(length));
    if (lengths == Lengths::all || power) list.push_back(length);
  }
  return list;
}

/// Returns the items of `all` that are not in `some`, in their order, each once.
template <class Item>
std::vector<Item> missing(const std::vector<Item>& all, const std::vector<Item>& some) {
  std::vector<Item> list;
  for (const Item& item : all) {
    const auto is_in = [&](const std::vector<Item>& those) {
      return std::find(those.begin(), those.end(), item) != those.end();
    };
    if (!is_in(some) && !is_in(list)) list.push_back(item);
  }
  return list;
}

/// Returns `part` of every variation.
template <class Part>
auto parts_of(const std::vector<Variation>& variations, const Part& part) {
  std::vector<decltype(part(variations.front()))> list;
  for (const Variation& variation : variations) list.push_back(part(variation));
  return list;
}

std::size_t tables_of(const std::vector<Variation>& variations) {
  const auto names = parts_of(variations, [](const Variation& v) { return v.kernels; });
  return std::set(names.begin(), names.end()).size();
}

int rows_recomputed(const Request& request, const Effort& effort) {
  int rows = 0;
  for (int row = 0; row < request.max_new_tokens; ++row) {
    rows += is_fresh_row(request, request.prompt.size() + static_cast<std::size_t>(row), effort.fresh_rows);
  }
  return rows;
}

/// Returns the drafts whose request is repeated by checks, in the order of the runs.
std::vector<std::string> drafts_again(const std::vector<Variation>& variations, const Effort& effort) {
  auto drafts = missing(parts_of(variations, [](const Variation& v) { return v.draft; }), {});
  if (drafts.size() > static_cast<std::size_t>(effort.drafts_again)) {
    drafts.resize(static_cast<std::size_t>(effort.drafts_again));
  }
  return drafts;
}

}  // namespace

std::vector<std::string> plan_controls(const VerifySetup& setup, const Effort& effort) {
  std::vector<std::string> list;
  for (const char* control : first_of(all_controls, effort.controls)) {
    const bool named = std::find(setup.drafts.begin(), setup.drafts.end(), control) != setup.drafts.end();
    if (!named) list.emplace_back(control);
  }
  return list;
}

std::vector<Variation> plan_variations(const VerifySetup& setup, const Effort& effort) {
  std::vector<Variation> list;
  const auto add = [&](const std::string& draft, int draft_max, const std::string& table, const VariationWay& way) {
    Variation variation;
    variation.draft = draft;
    variation.draft_max = draft_max;
    variation.rule = setup.rule;
    variation.kernels = table;
    variation.threads = way.threads;
    variation.verification = way.verification;
    list.push_back(variation);
  };
  const std::string& best = setup.tables.front();
  for (std::size_t i = 0; i < setup.drafts.size(); ++i) {
    const std::string& draft = setup.drafts[i];
    for (const VariationWay& way : ways) add(draft, setup.draft_max, best, way);
    const int limit = std::min(setup.draft_tokens[i], setup.request.max_new_tokens);
    for (const int length : lengths_below(limit, effort.lengths)) {
      add(draft, length, best, ways[0]);
      if (effort.all_serially && std::has_single_bit(static_cast<unsigned>(length))) add(draft, length, best, ways[2]);
    }
  }
  for (const std::string& control : plan_controls(setup, effort)) {
    add(control, 0, best, ways[0]);
    if (effort.all_serially) add(control, 0, best, ways[2]);
  }
  for (const std::string& table : setup.tables) {
    const bool slow = table == "scalar";
    if (table == best || effort.tables == Tables::best || (slow && effort.tables != Tables::all)) continue;
    for (const std::string& draft : setup.drafts) {
      for (std::size_t way = 0; way + 1 < std::size(ways) && static_cast<int>(way) < effort.ways_elsewhere; ++way) {
        add(draft, setup.draft_max, table, ways[way]);
      }
    }
  }
  return list;
}

std::vector<std::string> left_out(const VerifySetup& setup, const Effort& effort) {
  const Effort& full = full_effort();
  const std::vector<Variation> all = plan_variations(setup, full);
  const std::vector<Variation> runs = plan_variations(setup, effort);
  std::vector<std::string> list;
  const auto name = [&](const char* what, const auto& cases) {
    std::string text;
    for (const auto& item : cases) text += fmt::format("{}{}", text.empty() ? "" : ", ", item);
    if (!text.empty()) list.push_back(fmt::format("{} {}", what, text));
  };
  const auto draft = [](const Variation& v) { return v.draft; };
  const auto table = [](const Variation& v) { return v.kernels; };
  const auto length = [](const Variation& v) {
    return v.draft_max == 0 ? v.draft : fmt::format("{} of {}", v.draft_max, v.draft);
  };
  const auto tables = missing(parts_of(all, table), parts_of(runs, table));
  const auto drafts = missing(parts_of(all, draft), parts_of(runs, draft));
  const auto lengths = missing(missing(parts_of(all, length), parts_of(runs, length)), drafts);
  name("kernel tables", tables);
  name("controls", drafts);
  name("draft lengths", lengths);
  const auto is_in = [](const auto& those, const auto& item) {
    return std::find(those.begin(), those.end(), item) != those.end();
  };
  const auto kept = parts_of(runs, [](const Variation& v) { return v.describe(); });
  const auto other_ways = std::count_if(all.begin(), all.end(), [&](const Variation& v) {
    return !is_in(kept, v.describe()) && !is_in(tables, v.kernels) && !is_in(drafts, v.draft) &&
           !is_in(lengths, length(v));
  });
  if (other_ways > 0) {
    list.push_back(fmt::format("{} other combinations of draft, table, threads and kind of verification", other_ways));
  }
  name("repeated runs, whole, cancelled or beside another sequence, of the drafts",
       missing(drafts_again(all, full), drafts_again(runs, effort)));
  std::vector<int> sizes;
  for (const int size : prompt_piece_sizes) {
    if (size < static_cast<int>(setup.request.prompt.size()) - 1) sizes.push_back(size);
  }
  const auto tried = first_of(prompt_piece_sizes, effort.prompt_pieces);
  name("chunked prefill in chunks of", missing(sizes, {tried.begin(), tried.end()}));
  if (effort.cuts < full.cuts) list.emplace_back("runs cancelled after their first round");
  if (const auto read = first_of(other_readings, effort.readings).size(); read < std::size(other_readings)) {
    list.push_back(fmt::format("{} of {} other batchings of the text", std::size(other_readings) - read,
                               std::size(other_readings)));
  }
  if (const int rows = rows_recomputed(setup.request, effort); rows < setup.request.max_new_tokens) {
    list.push_back(fmt::format("recomputing {} of {} rows of plain decoding from scratch: they use a KV cache",
                               setup.request.max_new_tokens - rows, setup.request.max_new_tokens));
  }
  return list;
}

std::string describe_scope(const VerifySetup& setup, const Effort& effort) {
  const std::vector<Variation> all = plan_variations(setup, full_effort());
  const std::vector<Variation> runs = plan_variations(setup, effort);
  return fmt::format("effort {}: {} of {} kernel tables, {} of {} runs, {} of {} plain rows recomputed from scratch",
                     effort.name, tables_of(runs), tables_of(all), runs.size(), all.size(),
                     rows_recomputed(setup.request, effort), setup.request.max_new_tokens);
}

std::vector<double> plan_steps(const VerifySetup& setup, const Effort& effort, const Paces& paces,
                               std::span<const Check* const> checks) {
  const std::vector<Variation> variations = plan_variations(setup, effort);
  const Pace& plain = paces.drafts.at("none");
  const double prompt = static_cast<double>(setup.request.prompt.size());
  const double tokens = setup.request.max_new_tokens;
  const auto slowness = [&](const std::string& table) { return paces.tables.at(table).token / plain.token; };
  const auto run = [&](const std::string& draft, const std::string& table) {
    const Pace& pace = paces.drafts.at(draft);
    return slowness(table) * (prompt * pace.prompt_row + tokens * pace.token);
  };

  std::vector<double> steps;
  std::set<std::pair<std::string, int>> ways_to_compute;
  // Texts may differ by draft and length where the rule promises the distribution only.
  std::set<std::pair<std::string, int>> texts;
  std::string loaded = setup.tables.front();
  for (const Variation& variation : variations) {
    steps.push_back(run(variation.draft, variation.kernels) + (loaded == variation.kernels ? 0 : paces.loading));
    loaded = variation.kernels;
    ways_to_compute.emplace(variation.kernels, variation.threads);
    const bool same = setup.request.sampling.greedy() || variation.promises_tokens();
    texts.emplace(same ? "" : variation.draft, same ? 0 : variation.draft_max);
  }

  const auto run_on_best = [&](const std::string& draft) { return run(draft, setup.tables.front()); };
  TrialCosts trial = {
      .effort = effort,
      .prompt = prompt,
      .output = tokens,
      .texts = static_cast<double>(texts.size()),
      .plain_row = plain.prompt_row,
      .plain_token = plain.token,
      .plain_run = run_on_best("none"),
      .first_run = run_on_best(setup.drafts.empty() ? "none" : setup.drafts.front()),
      .loading = paces.loading * static_cast<double>(tables_of(variations) - 1),
  };
  trial.plain_rows =
      trial.plain_run + rows_recomputed(setup.request, effort) * (prompt + tokens / 2) * plain.prompt_row;
  for (const auto& [table, threads] : ways_to_compute) trial.ways += slowness(table);
  for (const std::string& draft : drafts_again(variations, effort)) trial.repeated_runs += run_on_best(draft);
  for (const Check* const check : checks) steps.push_back(check->cost(trial));

  double timing = 0;
  for (const std::string& draft : setup.drafts) timing += run_on_best(draft);
  steps.push_back(effort.timed_repeats * (timing + trial.plain_run));
  return steps;
}

double seconds_left(const std::vector<double>& steps, std::size_t done, double elapsed) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(done);
  const double expected_so_far = std::accumulate(steps.begin(), middle, 0.0);
  const double expected_rest = std::accumulate(middle, steps.end(), 0.0);
  return expected_so_far > 0 ? expected_rest * elapsed / expected_so_far : expected_rest;
}

std::string in_words(double seconds) {
  if (seconds < 60) return "less than a minute";
  if (seconds < 90 * 60) return fmt::format("{:.0f} minutes", std::ceil(seconds / 60));
  return fmt::format("{:.1f} hours", seconds / 3600);
}

}  // namespace draftproof
