// SPDX-License-Identifier: MIT
// Every suffix of the text, cut off after `depth_` tokens, is a way down from the root. One that occurred before ends
// inside the tree: it is active, and moves on with every token. When it becomes unique, it gets a leaf whose edge is
// the rest of the text, however long that will be; so it is never touched again, and neither is any longer suffix.
//
// `entered` is counted where an edge begins. It counts what passes the whole edge, and active suffixes that end on the
// edge. A separator is appended like a token that no suffix goes beyond: whatever was active ends before it, at a node.
#include "ref/drafts/suffix_tree.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {

SuffixTree::SuffixTree(int depth) : depth_(depth) {
  REQUIRE(depth >= 1, "a suffix tree has a depth");
  clear();
}

void SuffixTree::clear() {
  size_ = 0;
  nodes_ = {{0, 0, none, 0, 0, none}};
  slots_ = {};
  active_ = {};
}

Token SuffixTree::first_token(std::span<const Token> text, int index) const {
  const Node& of = node(index);
  return text[static_cast<std::size_t>(of.origin + node(of.parent).depth)];
}

/// Returns the slot of the child, or the empty one where it belongs.
std::size_t SuffixTree::slot_of(std::span<const Token> text, int parent, Token token) const {
  std::uint64_t hash = (static_cast<std::uint64_t>(parent) << 32) | static_cast<std::uint32_t>(token);
  hash = (hash ^ (hash >> 32)) * 0xff51afd7ed558ccdu;
  hash ^= hash >> 32;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    const int index = slots_[slot];
    if (index == none || (node(index).parent == parent && first_token(text, index) == token)) return slot;
  }
}

int SuffixTree::child(std::span<const Token> text, int parent, Token token) const {
  return slots_.empty() ? none : slots_[slot_of(text, parent, token)];
}

/// Afterwards one more token can be appended without taking memory.
void SuffixTree::make_room(std::span<const Token> text) {
  const std::size_t max = nodes_.size() + 2 * (active_.size() + 1);
  if (max > nodes_.capacity()) nodes_.reserve(std::max(max, 2 * nodes_.capacity()));
  if (active_.size() == active_.capacity()) active_.reserve(std::max<std::size_t>(16, 2 * active_.size()));
  if (2 * max <= slots_.size()) return;
  std::size_t size = 64;
  while (size < 2 * max) size *= 2;
  std::vector<int> slots(size, none);
  slots_.swap(slots);
  for (int index = 1; index < nodes(); ++index) {
    slots_[slot_of(text, node(index).parent, first_token(text, index))] = index;
  }
}

void SuffixTree::append(std::span<const Token> text) {
  REQUIRE(text.size() > static_cast<std::size_t>(size_), "a text begins with all tokens appended");
  make_room(text);
  // The longest first: active_[length] is written after it was read.
  const int longest = static_cast<int>(active_.size());
  int moved = 0;  // the suffixes that are still active
  active_.push_back(none);
  for (int length = longest; length >= 0; --length) {
    if (step(text, length)) moved = std::max(moved, length + 1);
  }
  const bool ends = text[static_cast<std::size_t>(size_)] == separator;
  active_.resize(static_cast<std::size_t>(ends ? 0 : std::min(moved, depth_ - 1)));
  ++size_;
}

/// Moves the active suffix of `length` tokens on by the new token: to active_[length] when it occurred before. Else it
/// gets a leaf, and false is returned.
bool SuffixTree::step(std::span<const Token> text, int length) {
  const Token token = text[static_cast<std::size_t>(size_)];
  int at = length == 0 ? root : active_[static_cast<std::size_t>(length) - 1];
  if (length < node(at).depth) {
    if (text[static_cast<std::size_t>(node(at).origin + length)] == token) {
      active_[static_cast<std::size_t>(length)] = at;
      return true;
    }
    at = split(text, at, length);
  } else if (const int next = child(text, at, token); next != none) {
    enter(text, at, next);
    active_[static_cast<std::size_t>(length)] = next;
    return true;
  }
  add_leaf(text, at);
  return false;
}

/// Counts an occurrence that goes on from `parent` to `child`.
void SuffixTree::enter(std::span<const Token> text, int parent, int child) {
  Node& below = node(child);
  Node& above = node(parent);
  ++below.entered;
  const Token token = first_token(text, child);
  if (token == separator) return;
  ++above.followed;
  const bool better = above.best == none || below.entered > node(above.best).entered ||
                      (below.entered == node(above.best).entered && token < first_token(text, above.best));
  if (better) above.best = child;
}

/// Adds the leaf of the suffix that ends at `parent` and goes on with the new token.
void SuffixTree::add_leaf(std::span<const Token> text, int parent) {
  const int leaf = nodes();
  slots_[slot_of(text, parent, text[static_cast<std::size_t>(size_)])] = leaf;
  nodes_.push_back({size_ - node(parent).depth, depth_, parent, 0, 0, none});
  enter(text, parent, leaf);
}

/// Returns how many active suffixes end on the edge to a node, with at most `at` tokens.
int SuffixTree::ended(int index, int at) const {
  return static_cast<int>(std::count(active_.begin(), active_.begin() + at, index));
}

/// Ends the edge to `lower` after `at` tokens with a new node, which is returned. Of the active suffixes, those of at
/// most `at` tokens have not moved on yet, and all longer ones have leaves.
int SuffixTree::split(std::span<const Token> text, int lower, int at) {
  const int upper = nodes();
  const Node old = node(lower);
  const Token next = text[static_cast<std::size_t>(old.origin + at)];
  const int passed = old.entered - ended(lower, at);
  std::replace(active_.begin(), active_.begin() + at, lower, upper);
  slots_[slot_of(text, old.parent, first_token(text, lower))] = upper;
  if (node(old.parent).best == lower) node(old.parent).best = upper;
  nodes_.push_back({old.origin, at, old.parent, old.entered, 0, none});
  if (next != separator) {
    node(upper).followed = passed;
    node(upper).best = lower;
  }
  slots_[slot_of(text, upper, next)] = lower;
  node(lower).parent = upper;
  node(lower).entered = passed;
  return upper;
}

std::optional<SuffixTree::Place> SuffixTree::find(std::span<const Token> text, std::span<const Token> string) const {
  Place place;
  if (string.size() > static_cast<std::size_t>(depth_)) return {};
  for (const Token token : string) {
    if (token == separator) return {};
    if (place.length < node(place.node).depth) {
      const int position = node(place.node).origin + place.length;
      if (position >= size_ || text[static_cast<std::size_t>(position)] != token) return {};
    } else {
      const int next = child(text, place.node, token);
      if (next == none) return {};
      place.node = next;
    }
    ++place.length;
  }
  return place;
}

std::optional<SuffixTree::Next> SuffixTree::most_frequent(std::span<const Token> text, Place place) const {
  const Node& at = node(place.node);
  if (place.length == depth_) return {};
  if (place.length < at.depth) {
    const int position = at.origin + place.length;
    if (position >= size_ || text[static_cast<std::size_t>(position)] == separator) return {};
    return Next{text[static_cast<std::size_t>(position)], 1.0, {place.node, place.length + 1}};
  }
  if (at.best == none) return {};
  const double share = static_cast<double>(node(at.best).entered) / static_cast<double>(at.followed);
  return Next{first_token(text, at.best), share, {at.best, place.length + 1}};
}

int SuffixTree::count(Place place) const {
  REQUIRE(place.length > 0, "only strings of tokens are counted");
  const int shorter = std::min(place.length - 1, static_cast<int>(active_.size()));
  return node(place.node).entered - ended(place.node, shorter);
}

std::string SuffixTree::fault(std::span<const Token> text) const {
  const std::span<const Token> appended = text.first(static_cast<std::size_t>(size_));
  const auto occurrences = [&](std::span<const Token> string) {
    int count = 0;
    for (std::size_t i = 0; i + string.size() <= appended.size(); ++i) {
      count += std::equal(string.begin(), string.end(), appended.begin() + static_cast<std::ptrdiff_t>(i)) ? 1 : 0;
    }
    return count;
  };
  if (nodes() > 1 + 2 * size_) return "there are more than 2 nodes per token";
  std::vector<int> followed(nodes_.size(), 0);
  std::vector<int> best(nodes_.size(), none);
  for (int index = 1; index < nodes(); ++index) {
    const Node& below = node(index);
    const std::string which = "node " + std::to_string(index) + ": ";
    const Node& above = node(below.parent);
    if (above.depth >= below.depth || below.depth > depth_) return which + "its edge has no token";
    const auto string =
        appended.subspan(static_cast<std::size_t>(below.origin), static_cast<std::size_t>(above.depth) + 1);
    if (below.entered != occurrences(string)) return which + "it has another count than the text";
    if (child(text, below.parent, string.back()) != index) return which + "it is not found below its parent";
    if (string.back() == separator) continue;
    followed[static_cast<std::size_t>(below.parent)] += below.entered;
    int& other = best[static_cast<std::size_t>(below.parent)];
    if (other == none || below.entered > node(other).entered ||
        (below.entered == node(other).entered && string.back() < first_token(text, other))) {
      other = index;
    }
  }
  for (int index = 0; index < nodes(); ++index) {
    const std::string which = "node " + std::to_string(index) + ": ";
    if (node(index).followed != followed[static_cast<std::size_t>(index)]) return which + "its children do not add up";
    if (node(index).best != best[static_cast<std::size_t>(index)]) return which + "another child is more frequent";
  }
  for (std::size_t length = 1; length < static_cast<std::size_t>(depth_); ++length) {
    const bool within = length <= appended.size();
    const bool active = within && occurrences(appended.last(length)) > 1;
    const bool same_text = within && std::ranges::count(appended.last(length), separator) == 0;
    if ((active && same_text) != (length <= active_.size())) return "the wrong suffixes are active";
    if (length > active_.size()) break;
    const auto place = find(text, appended.last(length));
    if (!place || place->node != active_[length - 1]) return "an active suffix is in another place";
  }
  return "";
}

}  // namespace draftproof
