// SPDX-License-Identifier: MIT
#include "ref/base/digest.h"

#include <xxhash.h>

#include <cstdio>
#include <new>

#include "ref/base/require.h"

namespace draftproof {

struct Digest::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Digest::Digest() : state_(std::make_unique<State>()) {
  if (state_->xxh == nullptr) throw std::bad_alloc();
  REQUIRE(XXH3_128bits_reset(state_->xxh) == XXH_OK, "a state can be set to its beginning");
}

Digest::~Digest() = default;

void Digest::add_bytes(const void* data, std::size_t size) { XXH3_128bits_update(state_->xxh, data, size); }

Fingerprint Digest::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

std::string Fingerprint::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Fingerprint digest_of(std::span<const float> row) {
  const XXH128_hash_t hash = XXH3_128bits(row.data(), row.size_bytes());
  return {hash.high64, hash.low64};
}

}  // namespace draftproof
