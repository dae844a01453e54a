// SPDX-License-Identifier: MIT
// Who asks, by the API key that came with a request. How long the answer takes says nothing of the keys that are known:
// SHA-256 of the one that came is compared with all bytes of SHA-256 of every known one, so neither their lengths nor
// the place where they differ nor their order show.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof::serve {

/// The number of the one among `known` that equals `given`; nullopt: none does. All have the length of `given`, and
/// every element of each is compared.
template <class Texts, class Text>
std::optional<int> place_among(const Texts& known, const Text& given) {
  int place = -1;
  for (std::size_t i = 0; i < known.size(); ++i) {
    unsigned difference = 0;
    for (std::size_t at = 0; at < given.size(); ++at) {
      difference |=
          static_cast<unsigned>(static_cast<unsigned char>(known[i][at]) ^ static_cast<unsigned char>(given[at]));
    }
    const int equal = -static_cast<int>(difference == 0);  // all bits or none
    place = (place & ~equal) | (static_cast<int>(i) & equal);
  }
  return place < 0 ? std::nullopt : std::optional(place);
}

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);

  bool empty() const noexcept { return digests_.empty(); }
  /// The number of the key; nullopt: it is none of those that are known.
  std::optional<int> number_of(std::string_view key) const;

 private:
  std::vector<std::string> digests_;
};

}  // namespace draftproof::serve
