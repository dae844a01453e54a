// SPDX-License-Identifier: MIT
// The prefix cache: what caches held for texts that were read before, so that a text that begins in the same way need
// not be read again. It belongs to one model, its drafts and one numerics class. One thread uses it at a time.
//
// The texts form a compressed trie. A node is the tokens of its edge and, for each part (the target, and the context of
// a draft under the draft's name), the snapshots of all layers: rows of exactly the edge's positions, or the state at
// the edge's end. A layer that keeps rows can be restored at any length, one that keeps a state only where a node ends
// that has it, so a text is restored to the longest length at which all layers of all parts can be. Sliding windows are
// restored to any length while the texts are no longer than the window.
//
//     PrefixCache prefixes(std::size_t{8} << 30);
//     const PrefixCache::Parts parts = {{"target", &cache}, {"dflash:qwen3-4b", &context}};
//     {
//       const PrefixCache::Lease lease = prefixes.find(prompt, length - 1, {"target", "dflash:qwen3-4b"});
//       prefixes.restore(lease, parts);  // both caches now hold prompt[0, lease.length())
//     }
//     ... read the rest of the prompt, decode; both caches are settled and hold text[0, cache.length()) ...
//     prefixes.insert(text, parts);
//
// The last token of a prompt is always read, because its row is the first to be sampled from: hence length - 1.
//
// Texts may have owners, as the clients of a server: each owner has a trie of its own, so that nothing that is found,
// nor its length, tells of the texts of others. They share the budget only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

class PrefixCache {
  using EdgeId = std::int64_t;  // never used twice

 public:
  /// Caches by the name of the part. A name also says which model wrote the cache, where a draft can be another one.
  using Parts = std::map<std::string, Cache*>;

  /// Keeps what was found from being evicted. The prefix cache must outlive it.
  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : prefixes_(std::exchange(other.prefixes_, nullptr)), edge_(other.edge_), length_(other.length_) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    /// Returns how many tokens were found; 0 when nothing was.
    int length() const noexcept { return length_; }

   private:
    friend class PrefixCache;
    Lease(PrefixCache& prefixes, EdgeId edge, int length);
    PrefixCache* prefixes_;
    EdgeId edge_;  // the last one of the path; it is leased
    int length_;
  };

  /// A node with the edge that leads to it, as saved and loaded.
  struct Node {
    int parent = -1;  // index of an earlier node; -1: the text begins here
    std::vector<Token> tokens;
    std::uint64_t used = 0;  // larger is later
    std::map<std::string, Snapshot> parts;
  };

  /// `budget` bytes of snapshots and tokens. While an insert runs, the new snapshots exceed it.
  explicit PrefixCache(std::size_t budget) : budget_(budget) {}
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// Returns the largest length, at most `limit`, of a prefix of `tokens` to which all named parts can be restored.
  Lease find(std::span<const Token> tokens, int limit, const std::vector<std::string>& names,
             const std::string& owner = {});

  /// Drops what the caches hold and restores what was found. They are parts that were named to find(), settled, and
  /// have capacity for length().
  void restore(const Lease& lease, const Parts& parts) const;

  /// Keeps what the caches hold. They are settled and of equal length, and have read exactly tokens[0, length); parts
  /// of unequal length are inserted one by one. Evicts what was used least recently, from the leaves on, until bytes()
  /// is within the budget.
  void insert(std::span<const Token> tokens, const Parts& parts, const std::string& owner = {});

  /// Returns the bytes of all snapshots, tokens and owners. At most the budget, unless leases hold more.
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t budget() const noexcept { return budget_; }

  /// Returns all nodes of texts without an owner, every one after its parent. They share the snapshots with this cache.
  std::vector<Node> nodes() const;

  /// Takes such nodes into an empty cache, and evicts as insert() does. Throws Error, and takes none, when they are not
  /// a trie or when their snapshots do not lie on their edges. The caller has checked that each snapshot fits its part.
  void take(std::vector<Node> nodes);

 private:
  struct Edge {
    EdgeId parent = 0;
    int end = 0;  // tokens from the start of the text to the end of this edge
    std::uint64_t used = 0;
    int leases = 0;
    std::vector<Token> tokens;         // none of a root
    std::map<Token, EdgeId> children;  // by first token
    std::map<std::string, Snapshot> parts;

    bool is_root() const { return tokens.empty(); }
    int begin() const { return end - static_cast<int>(tokens.size()); }
    std::size_t bytes() const;
  };
  /// How far a text leads: to `length`, which lies within `edge` or at its end.
  struct Place {
    EdgeId edge;
    int length;
  };

  Place walk(EdgeId root, std::span<const Token> tokens) const;
  std::vector<EdgeId> path_to(EdgeId edge) const;
  std::vector<const Snapshot*> snapshots_of(EdgeId edge, const std::string& part, int length) const;
  bool restorable(const Place& place, const std::string& part) const;
  EdgeId add(EdgeId parent, std::span<const Token> tokens);
  EdgeId split_edge(EdgeId edge, int at);
  void set(EdgeId edge, const std::string& part, Snapshot snapshot);
  void fill(EdgeId leaf, const std::string& part, const Cache& cache);
  EdgeId root_of(const std::string& owner);
  void remove(EdgeId leaf);
  void evict();

  static constexpr EdgeId ownerless = 0;  // the root that is always there
  std::size_t budget_;
  std::size_t bytes_ = 0;
  std::uint64_t now_ = 0;  // counts uses
  EdgeId next_ = 1;
  std::map<EdgeId, Edge> edges_ = {{ownerless, {}}};
  std::map<std::string, EdgeId> roots_ = {{"", ownerless}};  // by owner; others are there while they have edges
};

}  // namespace draftproof
