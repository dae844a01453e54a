// SPDX-License-Identifier: MIT
#include "serve/api_keys.h"

#include "ref/base/sha256.h"

namespace draftproof::serve {
namespace {

std::string digest_of_key(std::string_view key) {
  Sha256 digest;
  digest.add(key);
  return digest.hex();
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(digest_of_key(key));
}

std::optional<int> ApiKeys::number_of(std::string_view key) const { return place_among(digests_, digest_of_key(key)); }

}  // namespace draftproof::serve
