// SPDX-License-Identifier: MIT
#include "ref/drafts/suffix_index.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "ref/base/digest.h"
#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/drafts/suffix.h"

namespace draftproof {
namespace {

constexpr std::string_view magic = "dpsuffix";
constexpr std::uint32_t version = 1;

struct IndexHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t tokens;
  std::uint64_t high;
  std::uint64_t low;
};
static_assert(sizeof(IndexHead) == 32);

std::string_view viewed(const auto& list) {
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(*list.data())};
}

/// Sorts by 1, 2, 4, ... tokens: a suffix's rank by twice as many follows from those of its two halves.
std::vector<std::uint32_t> sorted_suffixes(std::span<const Token> text) {
  const std::size_t n = text.size();
  std::vector<std::uint32_t> places(n);
  std::iota(places.begin(), places.end(), 0U);
  std::vector<std::int32_t> ranks(text.begin(), text.end());
  std::vector<std::int32_t> next(n);
  for (std::size_t known = 0; known < SuffixIndex::order; known = std::max<std::size_t>(1, 2 * known)) {
    const auto key = [&](std::uint32_t place) {
      const std::size_t second = place + known;
      return std::pair(ranks[place], known == 0 || second >= n ? -2 : ranks[second]);
    };
    std::ranges::sort(places, {}, key);
    std::int32_t rank = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0 && key(places[i - 1]) != key(places[i])) ++rank;
      next[places[i]] = rank;
    }
    std::swap(ranks, next);
    if (static_cast<std::size_t>(rank) + 1 == n) break;  // all are different
  }
  return places;
}

Fingerprint digest_of_index(std::span<const Token> text, std::span<const std::uint32_t> places) {
  Digest digest;
  digest.add(text);
  digest.add(places);
  return digest.value();
}

}  // namespace

bool SuffixIndex::is_in(const std::filesystem::path& file) {
  std::error_code unreadable;  // who reads the file says so
  if (!std::filesystem::is_regular_file(file, unreadable)) return false;
  Incoming stream(file.string());
  char begin[magic.size()] = {};
  return stream.sgetn(begin, sizeof begin) == sizeof begin && std::string_view(begin, sizeof begin) == magic;
}

void SuffixIndex::write(std::span<const Token> text, const std::function<void(std::string_view)>& append) {
  const std::vector<std::uint32_t> places = sorted_suffixes(text);
  const Fingerprint digest = digest_of_index(text, places);
  IndexHead head = {{}, version, static_cast<std::uint32_t>(text.size()), digest.high, digest.low};
  std::ranges::copy(magic, head.magic);
  append({reinterpret_cast<const char*>(&head), sizeof head});
  append(viewed(text));
  append(viewed(places));
}

SuffixIndex::SuffixIndex(const std::filesystem::path& file, int vocabulary) : file_(file), vocabulary_(vocabulary) {
  const auto fail = [&](const std::string& what) {
    throw Error(file.string() + ": " + what + "; make it again with draftproof corpus --for suffix --index");
  };
  const std::span<const std::byte> bytes = file_.bytes();
  IndexHead head = {};
  if (bytes.size() < sizeof head) fail("is shorter than the head of a suffix index");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::string_view(head.magic, magic.size()) != magic) fail("is not a suffix index");
  if (head.version != version) fail("is a suffix index of the version " + std::to_string(head.version) + ", not 1");
  const std::size_t n = head.tokens;
  if (n == 0 || n > SuffixCorpus::max_tokens) {
    fail("has " + std::to_string(n) + " tokens, and an index has 1 to " + std::to_string(SuffixCorpus::max_tokens));
  }
  const std::size_t size = sizeof head + n * (sizeof(Token) + sizeof(std::uint32_t));
  if (bytes.size() != size) {
    fail("has " + std::to_string(bytes.size()) + " bytes, and an index of " + std::to_string(n) + " tokens " +
         std::to_string(size));
  }
  text_ = {reinterpret_cast<const Token*>(bytes.data() + sizeof head), n};
  places_ = {reinterpret_cast<const std::uint32_t*>(text_.data() + n), n};
  if (digest_of_index(text_, places_) != Fingerprint{head.high, head.low}) fail("is damaged: its fingerprint differs");
  for (std::size_t i = 0; i < n; ++i) {
    if (text_[i] < SuffixTree::separator || text_[i] >= vocabulary) {
      fail(std::to_string(text_[i]) + " at token " + std::to_string(i) + " is none of the target, 0 to " +
           std::to_string(vocabulary - 1) + ", nor -1 between two texts");
    }
    if (places_[i] >= n) fail("its place " + std::to_string(i) + " lies behind the text");
  }
}

/// A file that is written to while it is mapped gives other draft tokens, and nothing else is read.
Token SuffixIndex::at(std::size_t rank, int distance) const {
  const std::size_t place = static_cast<std::size_t>(places_[rank]) + static_cast<std::size_t>(distance);
  const Token token = place < text_.size() ? text_[place] : SuffixTree::separator;
  return token < vocabulary_ ? std::max(token, SuffixTree::separator) : SuffixTree::separator;
}

std::size_t SuffixIndex::first_with(std::size_t first, std::size_t last, int distance, Token token) const {
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (at(middle, distance) < token) first = middle + 1;
    else last = middle;
  }
  return first;
}

std::optional<SuffixIndex::Place> SuffixIndex::find(std::span<const Token> string) const {
  std::size_t first = 0;
  std::size_t last = places_.size();
  int distance = 0;
  for (const Token token : string) {
    first = first_with(first, last, distance, token);
    last = first_with(first, last, distance, token + 1);
    if (first == last) return std::nullopt;
    ++distance;
  }
  return Place{first, last - first, distance};
}

/// A token that follows more often than the best so far, `best` times, has more than `best` neighbors: one of them is
/// met by steps of best + 1.
std::optional<SuffixIndex::Next> SuffixIndex::most_frequent(const Place& place, double min_share) const {
  const std::size_t last = place.first + place.count;
  const std::size_t first = first_with(place.first, last, place.length, 0);
  const std::size_t followed = last - first;
  if (followed == 0) return std::nullopt;
  const auto wanted =
      static_cast<std::size_t>(min_share * static_cast<double>(followed));  // a little less is found, too
  std::size_t best = wanted > 1 ? wanted - 1 : 0;
  std::optional<Next> found;
  for (std::size_t from = first; from + best < last;) {
    const Token token = at(from + best, place.length);
    if (token < 0) {  // only where the suffixes are in another order than they should be
      from += best + 1;
      continue;
    }
    const std::size_t begin = first_with(from, from + best, place.length, token);
    const std::size_t end = first_with(from + best, last, place.length, token + 1);
    if (end - begin > best) {
      best = end - begin;
      found = Next{token, static_cast<double>(best) / static_cast<double>(followed), {begin, best, place.length + 1}};
    }
    from = std::max(end, from + 1);
  }
  return found;
}

}  // namespace draftproof
