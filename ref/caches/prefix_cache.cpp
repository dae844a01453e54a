// SPDX-License-Identifier: MIT
#include "ref/caches/prefix_cache.h"

#include <algorithm>
#include <limits>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

/// Cuts a snapshot at a position inside of it. Unlike split() it keeps what can be kept: a state that can be shortened
/// becomes one at the cut as well.
std::pair<Snapshot, Snapshot> cut(const Snapshot& snapshot, int at) {
  std::pair<Snapshot, Snapshot> parts = split(snapshot, at);
  for (std::size_t i = 0; i < snapshot.layers.size(); ++i) {
    const LayerSnapshotPtr& layer = snapshot.layers[i];
    if (layer == nullptr || layer->form != LayerSnapshot::Form::state) continue;
    parts.first.layers[i] = shortened(*layer, at);
  }
  return parts;
}

/// Returns whether a snapshot is one of an edge: of its positions, and with states at its end only.
bool lies_on(const Snapshot& snapshot, int begin, int end) {
  if (snapshot.from != begin || snapshot.to != end) return false;
  return std::all_of(snapshot.layers.begin(), snapshot.layers.end(), [&](const LayerSnapshotPtr& layer) {
    if (layer == nullptr) return true;
    return layer->to == end && (layer->form == LayerSnapshot::Form::state || layer->from == begin);
  });
}

/// Replaces uses by their ranks, 1 and up, so that there is room for more whatever they were. Returns the largest.
std::uint64_t rank_uses(std::vector<PrefixCache::Node>& nodes) {
  std::vector<std::uint64_t> uses;
  for (const PrefixCache::Node& node : nodes) uses.push_back(node.used);
  std::sort(uses.begin(), uses.end());
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  for (PrefixCache::Node& node : nodes) {
    const auto rank = std::lower_bound(uses.begin(), uses.end(), node.used) - uses.begin();
    node.used = static_cast<std::uint64_t>(rank) + 1;
  }
  return uses.size();
}

}  // namespace

std::size_t PrefixCache::Edge::bytes() const {
  std::size_t bytes = tokens.size() * sizeof(Token);
  for (const auto& [name, snapshot] : parts) bytes += snapshot.bytes();
  return bytes;
}

PrefixCache::Lease::Lease(PrefixCache& prefixes, EdgeId edge, int length)
    : prefixes_(&prefixes), edge_(edge), length_(length) {
  ++prefixes_->edges_.at(edge_).leases;
}

PrefixCache::Lease::~Lease() {
  if (prefixes_ == nullptr) return;
  --prefixes_->edges_.at(edge_).leases;
  prefixes_->evict();
}

PrefixCache::~PrefixCache() {
  for (const auto& [id, edge] : edges_) REQUIRE(edge.leases == 0, "a prefix cache outlives its leases");
}

PrefixCache::Place PrefixCache::walk(EdgeId root, std::span<const Token> tokens) const {
  Place place{root, 0};
  while (place.length < static_cast<int>(tokens.size())) {
    const Edge& here = edges_.at(place.edge);
    const auto child = here.children.find(tokens[static_cast<std::size_t>(place.length)]);
    if (child == here.children.end()) break;
    const Edge& next = edges_.at(child->second);
    const auto rest = tokens.subspan(static_cast<std::size_t>(place.length));
    const auto differ = std::mismatch(next.tokens.begin(), next.tokens.end(), rest.begin(), rest.end()).first;
    place = {child->second, place.length + static_cast<int>(differ - next.tokens.begin())};
    if (differ != next.tokens.end()) break;
  }
  return place;
}

std::vector<PrefixCache::EdgeId> PrefixCache::path_to(EdgeId edge) const {
  std::vector<EdgeId> path;
  for (; !edges_.at(edge).is_root(); edge = edges_.at(edge).parent) path.push_back(edge);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<const Snapshot*> PrefixCache::snapshots_of(EdgeId edge, const std::string& part, int length) const {
  std::vector<const Snapshot*> snapshots;
  for (const EdgeId id : path_to(edge)) {
    const Edge& here = edges_.at(id);
    if (here.begin() >= length) break;
    const auto found = here.parts.find(part);
    if (found == here.parts.end()) return {};
    snapshots.push_back(&found->second);
  }
  return snapshots;
}

bool PrefixCache::restorable(const Place& place, const std::string& part) const {
  const std::vector<const Snapshot*> snapshots = snapshots_of(place.edge, part, place.length);
  return !snapshots.empty() && restores_empty(snapshots, place.length);
}

PrefixCache::Lease PrefixCache::find(std::span<const Token> tokens, int limit, const std::vector<std::string>& names,
                                     const std::string& owner) {
  REQUIRE(!names.empty(), "a prefix is found for the caches of at least one part");
  const auto within = std::min(tokens.size(), static_cast<std::size_t>(std::max(0, limit)));
  // At no other length can a layer be restored that cannot be restored here, or else at the end of an edge before.
  const auto known = roots_.find(owner);
  if (known == roots_.end()) return Lease(*this, ownerless, 0);
  Place place = walk(known->second, tokens.first(within));
  while (!edges_.at(place.edge).is_root()) {
    const bool all =
        std::all_of(names.begin(), names.end(), [&](const std::string& name) { return restorable(place, name); });
    if (all) {
      edges_.at(place.edge).used = ++now_;
      return Lease(*this, place.edge, place.length);
    }
    place.edge = edges_.at(place.edge).parent;
    place.length = edges_.at(place.edge).end;
  }
  return Lease(*this, ownerless, 0);
}

void PrefixCache::restore(const Lease& lease, const Parts& parts) const {
  REQUIRE(lease.prefixes_ == this, "a lease is used with its own prefix cache");
  for (const auto& [name, cache] : parts) {
    cache->clear();
    if (lease.length_ == 0) continue;
    const std::vector<const Snapshot*> snapshots = snapshots_of(lease.edge_, name, lease.length_);
    REQUIRE(cache->restore(snapshots, lease.length_), "what was found fits into the caches of the parts it was for");
  }
}

PrefixCache::EdgeId PrefixCache::add(EdgeId parent, std::span<const Token> tokens) {
  const EdgeId id = next_++;
  Edge& edge = edges_[id];
  edge.parent = parent;
  edge.end = edges_.at(parent).end + static_cast<int>(tokens.size());
  edge.tokens.assign(tokens.begin(), tokens.end());
  edges_.at(parent).children[tokens.front()] = id;
  bytes_ += edge.bytes();
  return id;
}

/// Returns the new edge that ends at `at`; `id` remains the one after it.
PrefixCache::EdgeId PrefixCache::split_edge(EdgeId id, int at) {
  Edge& after = edges_.at(id);
  std::map<std::string, std::pair<Snapshot, Snapshot>> parts;
  for (const auto& [part, snapshot] : after.parts) parts[part] = cut(snapshot, at);
  const auto kept = after.tokens.begin() + (at - after.begin());
  const std::vector<Token> first(after.tokens.begin(), kept);
  const EdgeId before_id = add(after.parent, first);
  Edge& before = edges_.at(before_id);
  before.used = after.used;
  before.children[*kept] = id;
  bytes_ -= before.bytes() + after.bytes();
  after.parent = before_id;
  after.tokens.erase(after.tokens.begin(), kept);
  for (auto& [part, snapshots] : parts) {
    before.parts[part] = std::move(snapshots.first);
    after.parts[part] = std::move(snapshots.second);
  }
  bytes_ += before.bytes() + after.bytes();
  return before_id;
}

void PrefixCache::set(EdgeId edge, const std::string& part, Snapshot snapshot) {
  Snapshot& place = edges_.at(edge).parts[part];
  bytes_ -= place.bytes();
  place = std::move(snapshot);
  bytes_ += place.bytes();
}

/// Gives the part to all edges of the path that lack it, and to the others the states that they lack and the cache
/// still has: at the end always, and as far as the cache's state can be shortened.
void PrefixCache::fill(EdgeId leaf, const std::string& part, const Cache& cache) {
  const std::vector<EdgeId> path = path_to(leaf);
  const auto lacking =
      std::find_if(path.begin(), path.end(), [&](EdgeId id) { return !edges_.at(id).parts.contains(part); });
  // Of rows only those that are missing are copied; a state needs one position to be copied at all.
  Snapshot rest = cache.snapshot(lacking == path.end() ? cache.length() - 1 : edges_.at(*lacking).begin());
  for (auto id = path.begin(); id != lacking; ++id) {
    Snapshot filled = edges_.at(*id).parts.at(part);
    REQUIRE(rest.layers.size() == filled.layers.size(), "a part always has caches of one model");
    for (std::size_t i = 0; i < filled.layers.size(); ++i) {
      const LayerSnapshotPtr& layer = rest.layers[i];
      if (filled.layers[i] != nullptr || layer == nullptr || layer->form != LayerSnapshot::Form::state) continue;
      filled.layers[i] = *id == leaf ? layer : shortened(*layer, filled.to);
    }
    set(*id, part, std::move(filled));
  }
  for (auto id = lacking; id != path.end(); ++id) {
    if (*id == leaf) {
      set(leaf, part, std::move(rest));
      break;
    }
    auto [here, after] = cut(rest, edges_.at(*id).end);
    set(*id, part, std::move(here));
    rest = std::move(after);
  }
}

PrefixCache::EdgeId PrefixCache::root_of(const std::string& owner) {
  const auto [root, added] = roots_.emplace(owner, next_);
  if (added) {
    edges_[next_++];
    bytes_ += owner.size();
  }
  return root->second;
}

void PrefixCache::insert(std::span<const Token> tokens, const Parts& parts, const std::string& owner) {
  REQUIRE(!parts.empty(), "what is inserted has at least one part");
  const int length = parts.begin()->second->length();
  for (const auto& [name, cache] : parts) {
    REQUIRE(cache->length() == length, "the caches of all parts hold the same positions");
    REQUIRE(cache->end() == length, "only rows that were committed are kept");
  }
  REQUIRE(length <= static_cast<int>(tokens.size()), "every position of a cache has a token");
  if (length == 0) return;
  tokens = tokens.first(static_cast<std::size_t>(length));

  const Place place = walk(root_of(owner), tokens);
  EdgeId leaf = place.edge;
  const bool known = place.length == length && std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
                       return restorable(place, part.first);
                     });
  if (!known) {
    if (place.length < edges_.at(leaf).end) leaf = split_edge(leaf, place.length);
    if (place.length < length) leaf = add(leaf, tokens.subspan(static_cast<std::size_t>(place.length)));
    for (const auto& [name, cache] : parts) fill(leaf, name, *cache);
  }
  edges_.at(leaf).used = ++now_;
  evict();
}

/// With its root, when it was the last one of an owner.
void PrefixCache::remove(EdgeId leaf) {
  const Edge& edge = edges_.at(leaf);
  const EdgeId parent = edge.parent;
  bytes_ -= edge.bytes();
  edges_.at(parent).children.erase(edge.tokens.front());
  edges_.erase(leaf);
  if (parent == ownerless || !edges_.at(parent).is_root() || !edges_.at(parent).children.empty()) return;
  const auto root = std::find_if(roots_.begin(), roots_.end(), [&](const auto& one) { return one.second == parent; });
  bytes_ -= root->first.size();
  roots_.erase(root);
  edges_.erase(parent);
}

void PrefixCache::evict() {
  while (bytes_ > budget_) {
    auto oldest = edges_.end();
    for (auto edge = edges_.begin(); edge != edges_.end(); ++edge) {
      if (edge->second.is_root() || edge->second.leases > 0 || !edge->second.children.empty()) continue;
      if (oldest == edges_.end() || edge->second.used < oldest->second.used) oldest = edge;
    }
    if (oldest == edges_.end()) return;
    remove(oldest->first);
  }
}

std::vector<PrefixCache::Node> PrefixCache::nodes() const {
  std::vector<Node> nodes;
  // Edges whose children are to be visited, and their indices.
  std::vector<std::pair<EdgeId, int>> open = {{ownerless, -1}};
  while (!open.empty()) {
    const auto [id, index] = open.back();
    open.pop_back();
    for (const auto& [token, child] : edges_.at(id).children) {
      const Edge& edge = edges_.at(child);
      open.emplace_back(child, static_cast<int>(nodes.size()));
      nodes.push_back({index, edge.tokens, edge.used, edge.parts});
    }
  }
  rank_uses(nodes);
  return nodes;
}

void PrefixCache::take(std::vector<Node> nodes) {
  REQUIRE(edges_.size() == 1 && edges_.at(ownerless).leases == 0, "nodes are taken into an empty prefix cache");
  PrefixCache loaded(budget_);
  loaded.now_ = rank_uses(nodes);
  std::vector<EdgeId> ids;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    const auto fail = [&](const std::string& what) { throw Error("node " + std::to_string(i) + " " + what); };
    if (node.parent < -1 || node.parent >= static_cast<int>(i)) fail("has a parent that is not an earlier node");
    const EdgeId parent = node.parent < 0 ? ownerless : ids[static_cast<std::size_t>(node.parent)];
    const Edge& before = loaded.edges_.at(parent);
    if (node.tokens.empty()) fail("has no tokens");
    if (std::any_of(node.tokens.begin(), node.tokens.end(), [](Token token) { return token < 0; })) {
      fail("has a token below 0");
    }
    if (before.children.contains(node.tokens.front())) fail("begins like another child of its parent");
    if (node.tokens.size() > static_cast<std::size_t>(std::numeric_limits<int>::max() - before.end)) {
      fail("ends beyond the longest text");
    }
    const int end = before.end + static_cast<int>(node.tokens.size());
    for (const auto& [part, snapshot] : node.parts) {
      if (!lies_on(snapshot, before.end, end)) fail("has a snapshot of other positions than its own");
      if (parent != ownerless && !before.parts.contains(part)) fail("has a part that its parent lacks");
    }
    const EdgeId id = loaded.add(parent, node.tokens);
    for (auto& [part, snapshot] : node.parts) loaded.set(id, part, std::move(snapshot));
    loaded.edges_.at(id).used = node.used;
    ids.push_back(id);
  }
  edges_.swap(loaded.edges_);
  bytes_ = loaded.bytes_;
  now_ = loaded.now_;
  next_ = loaded.next_;
  evict();
}

}  // namespace draftproof
