// SPDX-License-Identifier: MIT
#include "oracle/shrink/shrink.h"

#include <algorithm>

#include "oracle/checks/checks.h"
#include "oracle/shrink/ddmin.h"
#include "ref/base/by_name.h"

namespace draftproof {
namespace {

constexpr int draft_lengths_tried = 9;  // of a draft that ran with its default length

class Shrinker {
 public:
  Shrinker(const Case& failing, const Finding& found, int trials_max, const std::function<Finding(const Case&)>& ask,
           const std::function<bool()>& go_on)
      : best_{failing, found, 0}, trials_max_(trials_max), ask_(ask), go_on_(go_on) {}

  Shrunken shrunken() && {
    leave_one_variation();
    bool smaller = true;
    while (smaller) {
      const Case before = best_.smallest;
      shorten();
      leave_out_sampling();
      leave_out_stops();
      simplify_variations();
      shorten_prompt();
      smaller = !same(before, best_.smallest);
    }
    return std::move(best_);
  }

 private:
  /// Keeps `smaller` if the check still fails on it.
  bool keep(const Case& smaller) {
    if (best_.trials >= trials_max_ || (go_on_ && !go_on_())) return false;
    ++best_.trials;
    Finding finding = ask_(smaller);
    // An interrupted trial may fail for that reason.
    if (finding.outcome != best_.finding.outcome || (go_on_ && !go_on_())) return false;
    best_.smallest = smaller;
    best_.finding = std::move(finding);
    return true;
  }
  template <class Change>
  bool keep_changed(Change change) {
    Case changed = best_.smallest;
    change(changed);
    return !same(changed, best_.smallest) && keep(changed);
  }

  /// Keeps the variation that the failure names, or as few as still fail together.
  void leave_one_variation() {
    const std::string& run = best_.finding.failure->run;
    const Variation* named = nullptr;
    for (const Variation& variation : best_.smallest.variations) {
      if (!run.starts_with(variation.describe())) continue;
      if (named == nullptr || named->describe().size() < variation.describe().size()) named = &variation;
    }
    if (named != nullptr && keep_changed([one = *named](Case& c) { c.variations = {one}; })) return;
    ddmin(
        best_.smallest.variations,
        [&](const std::vector<Variation>& some) { return keep_changed([&](Case& c) { c.variations = some; }); }, 1);
  }

  /// Doubles the number of new tokens until the case fails, then lowers it one by one.
  void shorten() {
    const int whole = best_.smallest.request.max_new_tokens;
    const auto fails_at = [&](int tokens) { return keep_changed([&](Case& c) { c.request.max_new_tokens = tokens; }); };
    for (int tokens = 1; tokens < whole && !fails_at(tokens); tokens *= 2) {
    }
    while (best_.smallest.request.max_new_tokens > 1 && fails_at(best_.smallest.request.max_new_tokens - 1)) {
    }
  }

  /// Leaves out sampling parameters, all of them or one by one.
  void leave_out_sampling() {
    const auto without = [&](auto change) { return keep_changed([&](Case& c) { change(c.request.sampling); }); };
    if (without([](Sampling& s) { s = {}; })) return;
    for_each_sampling_field([&](const auto& field) {
      const auto simplest = Sampling{}.*field.member;
      if (best_.smallest.request.sampling.*field.member == simplest) return;
      const auto at = [&](auto value) { return without([&](Sampling& s) { s.*field.member = value; }); };
      if (!at(simplest)) at(field.off);
    });
    without([](Sampling& s) { s.order = Sampling{}.order; });
    without([](Sampling& s) { s.logit_bias.clear(); });
    without([](Sampling& s) { s.dry_breakers.clear(); });
    keep_changed([](Case& c) { c.request.sequence = 0; });
    keep_changed([](Case& c) { c.request.context_shift = {}; });
    keep_changed([](Case& c) { c.request.constraint = nullptr; });
  }

  void leave_out_stops() {
    if (best_.smallest.request.constraint) return;  // it may know the stop tokens
    ddmin(best_.smallest.request.stops,
          [&](const std::vector<Token>& stops) { return keep_changed([&](Case& c) { c.request.stops = stops; }); });
  }

  void simplify_variations() {
    for (std::size_t i = 0; i < best_.smallest.variations.size(); ++i) {
      const auto with = [&](auto change) { return keep_changed([&](Case& c) { change(c.variations[i]); }); };
      with([](Variation& v) { v.threads = 1; });
      for_each_execution_field([&](const auto& field) {
        if (field.name == draft_max_field.name) return;  // a draft's default length is its longest, not its simplest
        with([&](Variation& v) { v.*field.member = Execution{}.*field.member; });
      });
      const Variation& now = best_.smallest.variations[i];
      const int max = now.draft == "none" ? 0 : now.draft_max > 0 ? now.draft_max : draft_lengths_tried;
      for (int draft_tokens = 1; draft_tokens < max; ++draft_tokens) {
        if (with([&](Variation& v) { v.draft_max = draft_tokens; })) break;
      }
    }
  }

  void shorten_prompt() {
    ddmin(
        best_.smallest.request.prompt,
        [&](const std::vector<Token>& prompt) { return keep_changed([&](Case& c) { c.request.prompt = prompt; }); }, 1);
  }

  static bool same(const Case& a, const Case& b) {
    const auto variation = [](const Variation& v) { return v.describe(); };
    return a.request == b.request && std::ranges::equal(a.variations, b.variations, {}, variation, variation);
  }

  Shrunken best_;
  const int trials_max_;
  const std::function<Finding(const Case&)>& ask_;
  const std::function<bool()>& go_on_;
};

}  // namespace

Finding examined(Subject& subject, const Case& failing) {
  Trial trial(subject, failing.request, failing.seed, failing.variations);
  return by_name(all_checks(), failing.check, "check")->examine(trial);
}

Shrunken shrink(const Case& failing, const Finding& found, int trials_max,
                const std::function<Finding(const Case&)>& ask, const std::function<bool()>& go_on) {
  return Shrinker(failing, found, trials_max, ask, go_on).shrunken();
}

}  // namespace draftproof
