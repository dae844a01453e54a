// SPDX-License-Identifier: MIT
#include "ref/caches/prefix_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "tests/caches/texts.h"

namespace draftproof::prefix_cache_test {
namespace {

using texts::Both;
using texts::Text;
using texts::Windows;

constexpr std::size_t unlimited = std::size_t{1} << 40;
const std::vector<std::string> both_names = {"target", "draft"};

int common(const Text& one, const Text& other) {
  const auto end = std::mismatch(one.begin(), one.end(), other.begin(), other.end()).first;
  return static_cast<int>(end - one.begin());
}

Text first(const Text& text, int length) { return {text.begin(), text.begin() + length}; }

bool holds(Both& both, const std::vector<std::string>& names, const Text& text, Windows windows) {
  Both cold(text, windows);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return both.parts().at(name)->digest() == cold.parts().at(name)->digest();
  });
}

/// Returns what is wrong with the nodes of a prefix cache, or nothing (properties P3, P4, P5).
std::string fault_of(const PrefixCache& prefixes) {
  std::size_t bytes = 0;
  std::vector<int> ends;
  std::set<std::pair<int, Token>> begun;
  const std::vector<PrefixCache::Node> nodes = prefixes.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PrefixCache::Node& node = nodes[i];
    if (node.parent >= static_cast<int>(i)) return "a parent after its child";
    if (node.tokens.empty()) return "an edge without tokens";
    if (!begun.emplace(node.parent, node.tokens.front()).second) return "two children with one first token";
    const int begin = node.parent < 0 ? 0 : ends[static_cast<std::size_t>(node.parent)];
    ends.push_back(begin + static_cast<int>(node.tokens.size()));
    bytes += node.tokens.size() * sizeof(Token);
    for (const auto& [name, snapshot] : node.parts) {
      bytes += snapshot.bytes();
      if (snapshot.from != begin || snapshot.to != ends.back()) return "a snapshot of other positions";
      for (const LayerSnapshotPtr& layer : snapshot.layers) {
        if (layer == nullptr) continue;
        if (layer->to != ends.back()) return "a layer that ends elsewhere";
        if (layer->form == LayerSnapshot::Form::rows && layer->from != begin) return "rows that begin elsewhere";
      }
    }
  }
  return bytes == prefixes.bytes() ? "" : "the bytes do not add up";
}

using Step = std::array<int, 5>;

/// A prefix cache beside a list of everything that was ever inserted.
class Pair {
 public:
  Pair(Windows windows, std::size_t budget) : windows_(windows), prefixes_(budget) {}

  void run(const Step& step) {
    const auto [what, seed, size, limit, which] = step;
    const Text text = text_of(seed, size);
    const std::vector<std::string> names = which % 4 == 0   ? std::vector<std::string>{"target"}
                                           : which % 4 == 1 ? std::vector<std::string>{"draft"}
                                                            : both_names;
    switch (what % 6) {
      case 0: hold(text, names); break;
      case 1: release(which); break;
      default: serve(text, limit % 3 == 0 ? limit % 32 : static_cast<int>(text.size()) - 1, names);
    }
    if (failure_.empty()) failure_ = fault_of(prefixes_);
    expect(within_budget(), "the budget is exceeded although something could be evicted");
  }

  /// Every lease still restores what was found.
  void release_all() {
    while (!held_.empty()) release(0);
  }

  const std::string& failure() const { return failure_; }
  long found() const { return found_; }

 private:
  struct Inserted {
    Text text;
    std::set<std::string> names;
  };
  struct Held {
    PrefixCache::Lease lease;
    Text text;
    std::vector<std::string> names;
  };

  void expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  /// Texts over three tokens; most continue a part of a text from before.
  Text text_of(int seed, int size) const {
    Text text;
    if (seed % 4 != 0 && !inserted_.empty()) {
      const Text& other = inserted_[static_cast<std::size_t>(seed / 4) % inserted_.size()].text;
      text = first(other, std::min(static_cast<int>(other.size()), size / 16 % 48));
    }
    auto state = static_cast<unsigned>(seed);
    for (int more = 1 + size % 8; more > 0 && text.size() < 24; --more) {
      text.push_back(static_cast<Token>(state % 3));
      state = state / 3 == 0 ? static_cast<unsigned>(seed) * 7 + 5 : state / 3;
    }
    return text;
  }

  /// The definition: the longest length that all layers of the parts can be restored to, from anything ever inserted.
  int longest(const Text& text, int limit, const std::vector<std::string>& names) const {
    for (int length = std::min(limit, static_cast<int>(text.size())); length > 0; --length) {
      const bool all = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        const int window = name == "target" ? windows_.target : windows_.draft;
        return std::any_of(inserted_.begin(), inserted_.end(), [&](const Inserted& other) {
          const int end = static_cast<int>(other.text.size());
          if (!other.names.contains(name) || common(other.text, text) < length) return false;
          return window == AttentionCache::everything || end == length || end <= window;
        });
      });
      if (all) return length;
    }
    return 0;
  }

  void check_found(const PrefixCache::Lease& lease, const Text& text, int limit,
                   const std::vector<std::string>& names) {
    const int expected = longest(text, limit, names);
    expect(lease.length() <= expected, "found something that was never inserted");
    if (prefixes_.budget() == unlimited) expect(lease.length() == expected, "found less than there is");
    found_ += lease.length();
  }

  /// What a request does: find, restore, read the rest, insert.
  void serve(const Text& text, int limit, const std::vector<std::string>& names) {
    Both both({}, windows_);
    PrefixCache::Parts parts;
    for (const std::string& name : names) parts[name] = both.parts().at(name);
    {
      const PrefixCache::Lease lease = prefixes_.find(text, limit, names);
      check_found(lease, text, limit, names);
      prefixes_.restore(lease, parts);
      expect(holds(both, names, first(text, lease.length()), windows_), "a restored cache is not a cold one");
    }
    both.read(text);
    prefixes_.insert(text, parts);
    inserted_.push_back({text, {names.begin(), names.end()}});
    expect(holds(both, names, text, windows_), "a continued cache is not a cold one");
  }

  void hold(const Text& text, const std::vector<std::string>& names) {
    if (held_.size() >= 3) return;
    PrefixCache::Lease lease = prefixes_.find(text, 40, names);
    check_found(lease, text, 40, names);
    held_.push_back({std::move(lease), text, names});
  }

  void release(int which) {
    if (held_.empty()) return;
    std::vector<Held> kept;
    const std::size_t index = static_cast<std::size_t>(which) % held_.size();
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (i != index) kept.push_back(std::move(held_[i]));
    }
    {
      const Held& held = held_[index];
      Both both({5, 5, 5}, windows_);
      PrefixCache::Parts parts;
      for (const std::string& name : held.names) parts[name] = both.parts().at(name);
      prefixes_.restore(held.lease, parts);
      expect(holds(both, held.names, first(held.text, held.lease.length()), windows_), "a lease has lost its text");
    }
    held_.swap(kept);
  }

  bool within_budget() const {
    if (prefixes_.bytes() <= prefixes_.budget()) return true;
    std::size_t leaves = 0;
    const std::vector<PrefixCache::Node> nodes = prefixes_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      leaves += std::none_of(nodes.begin(), nodes.end(),
                             [&](const PrefixCache::Node& node) { return node.parent == static_cast<int>(i); });
    }
    return leaves <= held_.size();
  }

  Windows windows_;
  PrefixCache prefixes_;
  std::vector<Inserted> inserted_;
  std::vector<Held> held_;
  std::string failure_;
  long found_ = 0;
};

constexpr std::size_t budgets[] = {unlimited, 0, 500, 3000};

RC_GTEST_PROP(PrefixCache, FindsTheLongestPrefixAndRestoresItToTheBit, ()) {
  const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::container<Step>(rc::gen::inRange(0, 1 << 16)));
  const int window = *rc::gen::inRange(0, 10);
  const int draft_window = *rc::gen::inRange(0, 10);
  for (const std::size_t budget : budgets) {
    Pair pair({window, draft_window}, budget);
    for (const Step& step : steps) {
      pair.run(step);
      if (!pair.failure().empty()) RC_FAIL("budget " + std::to_string(budget) + ": " + pair.failure());
    }
    pair.release_all();
    RC_ASSERT(pair.failure() == "");
  }
}

TEST(PrefixCacheSlow, FindsTheLongestPrefixInThousandsOfLongRuns) {
  std::uint64_t state = 1;
  const auto below = [&](int end) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int>((state >> 33) % static_cast<unsigned>(end));
  };
  long found = 0;
  for (int round = 0; round < 1000; ++round) {
    const Windows windows = {round % 10, below(10)};
    for (const std::size_t budget : budgets) {
      Pair pair(windows, budget);
      for (int i = 0; i < 25; ++i) {
        pair.run({below(1 << 16), below(1 << 16), below(1 << 16), below(1 << 16), below(1 << 16)});
        ASSERT_EQ(pair.failure(), "") << "round " << round << ", step " << i << ", budget " << budget << ", windows "
                                      << windows.target << " and " << windows.draft;
      }
      pair.release_all();
      ASSERT_EQ(pair.failure(), "") << "round " << round;
      found += pair.found();
    }
  }
  EXPECT_GT(found, 100000) << "hardly anything was found";
}

/// Every sequence of requests for texts of at most three of two tokens.
TEST(PrefixCache, FindsTheLongestPrefixInEverySequenceOfFourSmallRequests) {
  const std::vector<std::pair<int, int>> small = {{0, 0}, {4, 0}, {0, 1},  {4, 1}, {12, 1},
                                                  {0, 2}, {4, 2}, {12, 2}, {36, 2}};
  const int count = static_cast<int>(small.size());
  for (const int window : {0, 1, 2, 3}) {
    for (int word = 0; word < count * count * count * count; ++word) {
      Pair pair({window, 2}, unlimited);
      for (int rest = word, i = 0; i < 4; ++i, rest /= count) {
        const auto [seed, size] = small[static_cast<std::size_t>(rest % count)];
        pair.run({2, seed, size, 3, word / 7 + i});
      }
      ASSERT_EQ(pair.failure(), "") << "window " << window << ", word " << word;
    }
  }
}

void insert(PrefixCache& prefixes, const Text& text) {
  Both both(text);
  prefixes.insert(text, both.parts());
}

int length_of(PrefixCache& prefixes, const Text& text) { return prefixes.find(text, 40, both_names).length(); }

/// Both with full attention: every length can be restored.
void insert_full(PrefixCache& prefixes, const Text& text) {
  Both both(text, {0, 0});
  prefixes.insert(text, both.parts());
}

RC_GTEST_PROP(PrefixCache, OwnersFindWhatEachWouldFindInACacheOfItsOwn, ()) {
  const std::array<std::string, 3> owners = {"", "a", "some other"};
  const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::container<Step>(rc::gen::inRange(0, 1 << 16)));
  const Windows windows{*rc::gen::inRange(0, 10), *rc::gen::inRange(0, 10)};
  PrefixCache shared(unlimited);
  std::array<PrefixCache, 3> alone = {PrefixCache(unlimited), PrefixCache(unlimited), PrefixCache(unlimited)};
  for (const auto& [which, seed, size, limit, unused] : steps) {
    const auto owner = static_cast<std::size_t>(which % 3);
    Text text;  // of few tokens, so that those of different owners begin alike
    for (int i = 0, state = seed; i <= size % 12; ++i, state /= 2) text.push_back(static_cast<Token>(state % 2));
    Both both({}, windows);
    {
      const PrefixCache::Lease found = shared.find(text, limit % 12, both_names, owners[owner]);
      RC_ASSERT(found.length() == alone[owner].find(text, limit % 12, both_names).length());
      shared.restore(found, both.parts());
      RC_ASSERT(holds(both, both_names, first(text, found.length()), windows));
    }
    both.read(text);
    shared.insert(text, both.parts(), owners[owner]);
    alone[owner].insert(text, both.parts());
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < owners.size(); ++i)
      bytes += alone[i].bytes() + (alone[i].bytes() > 0 ? owners[i].size() : 0);
    RC_ASSERT(shared.bytes() == bytes);
    RC_ASSERT(shared.nodes().size() == alone[0].nodes().size());
  }
}

TEST(PrefixCache, NothingIsLeftOfAnOwnerWhoseTextsWereEvicted) {
  PrefixCache prefixes(100'000);
  const Text text = {1, 2, 3};
  Both both(text, {});
  prefixes.insert(text, both.parts());
  const std::size_t of_one = prefixes.bytes();
  PrefixCache small(of_one + 6);  // with the longest owner
  for (const char* const owner : {"first", "second", "third"}) {
    small.insert(text, both.parts(), owner);
    EXPECT_EQ(small.bytes(), of_one + std::string(owner).size()) << owner;
    EXPECT_EQ(small.find(text, 2, both_names, owner).length(), 2);
  }
  EXPECT_EQ(small.find(text, 2, both_names, "second").length(), 0);
  EXPECT_EQ(small.find(text, 2, both_names).length(), 0);
}

TEST(PrefixCache, IsEmptyAtFirst) {
  PrefixCache prefixes(unlimited);
  EXPECT_EQ(length_of(prefixes, {1, 2}), 0);
  EXPECT_EQ(prefixes.bytes(), 0U);
  Both both({1, 2, 3});
  {
    const PrefixCache::Lease nothing = prefixes.find(Text{1, 2}, 1, both_names);
    prefixes.restore(nothing, both.parts());
  }
  EXPECT_EQ(both.target.length(), 0) << "nothing was found, so the caches hold nothing";
  prefixes.insert(Text{}, both.parts());
  EXPECT_TRUE(prefixes.nodes().empty());
}

TEST(PrefixCache, NeverGivesMoreThanTheLimit) {
  PrefixCache prefixes(unlimited);
  insert_full(prefixes, {1, 2, 3, 4});
  for (int limit = -1; limit <= 6; ++limit) {
    EXPECT_EQ(prefixes.find(Text{1, 2, 3, 4}, limit, both_names).length(), std::clamp(limit, 0, 4));
  }
}

TEST(PrefixCache, KeepsNothingTwice) {
  PrefixCache prefixes(unlimited);
  insert_full(prefixes, {1, 2, 3, 4});
  const std::size_t bytes = prefixes.bytes();
  insert_full(prefixes, {1, 2, 3, 4});
  insert_full(prefixes, {1, 2});
  EXPECT_EQ(prefixes.bytes(), bytes);
  EXPECT_EQ(prefixes.nodes().size(), 1U) << "layers of rows need no node of their own";
  insert_full(prefixes, {1, 2, 9});
  EXPECT_EQ(prefixes.nodes().size(), 3U);
  EXPECT_EQ(prefixes.bytes(), bytes / 4 * 5);
}

TEST(PrefixCache, RestoresOnlyWhereAllPartsCanBe) {
  PrefixCache prefixes(unlimited);
  const Text text = {1, 2, 3, 4, 5, 6};
  Both both(text, {0, 0});
  prefixes.insert(text, {{"target", &both.target}});
  EXPECT_EQ(prefixes.find(text, 40, {"target"}).length(), 6);
  EXPECT_EQ(prefixes.find(text, 40, {"draft"}).length(), 0);
  EXPECT_EQ(length_of(prefixes, text), 0);
  insert_full(prefixes, {1, 2, 3});
  EXPECT_EQ(length_of(prefixes, text), 3);
  EXPECT_EQ(prefixes.find(text, 40, {"target"}).length(), 6);
  prefixes.insert(text, both.parts());
  EXPECT_EQ(length_of(prefixes, text), 6);
}

TEST(PrefixCache, EvictsTheLeafThatWasUsedLeastRecently) {
  PrefixCache prefixes(unlimited);
  insert_full(prefixes, {1, 2, 3});
  const std::size_t each = prefixes.bytes() / 3;  // bytes of a position
  PrefixCache small(8 * each);
  insert_full(small, {1, 2, 3});
  insert_full(small, {1, 2, 4});
  insert_full(small, {5, 6, 7});
  EXPECT_EQ(small.bytes(), 7 * each);
  EXPECT_EQ(length_of(small, {1, 2, 3}), 3);  // used again
  insert_full(small, {8, 8});                 // evicts {1, 2, 4}, which is the oldest
  EXPECT_EQ(length_of(small, {8, 8}), 2);
  EXPECT_EQ(small.bytes(), 8 * each);
  insert_full(small, {9});  // evicts {5, 6, 7}
  EXPECT_EQ(small.bytes(), 6 * each);
  const std::vector<PrefixCache::Node> nodes = small.nodes();
  EXPECT_EQ(nodes.size(), 4U);
  EXPECT_EQ(length_of(small, {5, 6, 7}), 0);
  EXPECT_EQ(length_of(small, {1, 2, 4}), 2);
}

TEST(PrefixCache, RefreshesOnlyTheDeepestNodeThatIsUsed) {
  PrefixCache prefixes(unlimited);
  insert_full(prefixes, {1, 2, 3, 4, 5});
  insert_full(prefixes, {1, 2, 3, 9});
  insert_full(prefixes, {7});
  const auto uses = [&] {
    std::map<Token, std::uint64_t> by_token;
    for (const PrefixCache::Node& node : prefixes.nodes()) by_token[node.tokens.front()] = node.used;
    return by_token;
  };
  EXPECT_EQ(uses(), (std::map<Token, std::uint64_t>{{1, 1}, {4, 1}, {9, 2}, {7, 3}}));
  EXPECT_EQ(length_of(prefixes, {1, 2, 3, 4, 8}), 4);
  EXPECT_EQ(uses(), (std::map<Token, std::uint64_t>{{1, 1}, {9, 2}, {7, 3}, {4, 4}}));
  EXPECT_EQ(length_of(prefixes, {1, 2}), 2);
  EXPECT_EQ(uses(), (std::map<Token, std::uint64_t>{{9, 1}, {7, 2}, {4, 3}, {1, 4}}));
}

TEST(PrefixCache, KeepsNoRowsThatAreNotCommitted) {
  PrefixCache prefixes(unlimited);
  Cache cache({}, 4, 2);
  Transaction transaction = cache.begin(2);
  cache.wrote(2);
  EXPECT_DEATH(prefixes.insert(Text{1, 2}, {{"target", &cache}}), "only rows that were committed");
}

TEST(PrefixCache, KeepsWhatIsLeased) {
  PrefixCache prefixes(0);
  insert_full(prefixes, {1, 2, 3});
  EXPECT_EQ(prefixes.bytes(), 0U) << "the budget is nothing";
  PrefixCache measure(unlimited);
  insert_full(measure, {1, 2, 3});
  PrefixCache small(measure.bytes());
  insert_full(small, {1, 2, 3});
  {
    const PrefixCache::Lease lease = small.find(Text{1, 2}, 40, both_names);
    EXPECT_EQ(lease.length(), 2);
    insert_full(small, {4, 5, 6});
    EXPECT_EQ(length_of(small, {4, 5, 6}), 0) << "there is only one candidate";
    insert_full(small, {1, 9, 9});  // splits what is leased
    Both both({}, {0, 0});
    small.restore(lease, both.parts());
    EXPECT_TRUE(holds(both, both_names, {1, 2}, {0, 0}));
  }
  EXPECT_LE(small.bytes(), small.budget());
}

TEST(PrefixCache, TakesItsOwnNodes) {
  PrefixCache prefixes(unlimited);
  for (const Text& text : {Text{1, 2, 3, 4, 5, 6}, Text{1, 2, 3, 9, 9}, Text{7, 7}, Text{1, 2, 3, 4, 5, 6, 8}}) {
    insert(prefixes, text);
  }
  PrefixCache again(unlimited);
  again.take(prefixes.nodes());
  EXPECT_EQ(again.bytes(), prefixes.bytes());
  EXPECT_EQ(fault_of(again), "");
  EXPECT_EQ(length_of(again, {1, 2, 3, 4, 5, 6, 9}), 6);
  PrefixCache small(prefixes.bytes() / 2);
  small.take(prefixes.nodes());
  EXPECT_LE(small.bytes(), small.budget());
  EXPECT_EQ(fault_of(small), "");
}

TEST(PrefixCache, TakesNoNodesThatAreNotATrie) {
  PrefixCache prefixes(unlimited);
  insert(prefixes, {1, 2, 3});
  insert(prefixes, {1, 2, 4});
  const std::vector<PrefixCache::Node> good = prefixes.nodes();
  ASSERT_EQ(good.size(), 3U);
  const auto refused = [&](const auto& change) {
    std::vector<PrefixCache::Node> nodes = good;
    change(nodes);
    PrefixCache other(unlimited);
    EXPECT_THROW(other.take(nodes), Error);
    EXPECT_EQ(other.bytes(), 0U);
    EXPECT_TRUE(other.nodes().empty());
  };
  refused([](auto& nodes) { nodes[1].parent = 1; });
  refused([](auto& nodes) { nodes[1].parent = 2; });
  refused([](auto& nodes) { nodes[1].parent = -2; });
  refused([](auto& nodes) { nodes[1].parent = -1; });
  refused([](auto& nodes) { nodes[2].tokens = nodes[1].tokens; });
  refused([](auto& nodes) { nodes[2].tokens.clear(); });
  refused([](auto& nodes) { nodes[2].tokens[0] = -1; });
  refused([](auto& nodes) { nodes[2].tokens.push_back(1); });
  refused([](auto& nodes) { std::swap(nodes[0].parts, nodes[1].parts); });
  refused([](auto& nodes) { nodes[0].parts.erase("draft"); });
  refused([](auto& nodes) { nodes[0].parts["target"].layers[0] = nodes[1].parts["target"].layers[0]; });
}

TEST(PrefixCacheDeathTest, BreachesOfTheContractAbort) {
  PrefixCache prefixes(unlimited);
  insert(prefixes, {1, 2, 3});
  Both both({1, 2, 3});
  EXPECT_DEATH(prefixes.insert(Text{1, 2}, both.parts()), "every position of a cache has a token");
  EXPECT_DEATH(prefixes.insert(Text{1, 2}, {}), "at least one part");
  EXPECT_DEATH(prefixes.find(Text{1, 2}, 2, {}), "at least one part");
  Both shorter({1, 2});
  EXPECT_DEATH(prefixes.insert(Text{1, 2, 3}, {{"target", &both.target}, {"draft", &shorter.draft}}), "same positions");
  const PrefixCache::Lease lease = prefixes.find(Text{1, 2, 3}, 3, {"target"});
  EXPECT_DEATH(prefixes.restore(lease, {{"other", &both.target}}), "what was found fits");
  PrefixCache others(unlimited);
  EXPECT_DEATH(others.restore(lease, both.parts()), "its own prefix cache");
  Both tiny({}, {}, 2);
  EXPECT_DEATH(prefixes.restore(lease, {{"target", &tiny.target}}), "what was found fits");
  EXPECT_DEATH(prefixes.take({}), "empty prefix cache");
}

}  // namespace
}  // namespace draftproof::prefix_cache_test
