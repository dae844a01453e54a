// SPDX-License-Identifier: MIT
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

/// Asks the sound source under another key.
template <class Change>
class Rekeyed final : public Chance {
 public:
  Rekeyed(Chance& sound, Change change) : sound_(sound), change_(change) {}
  std::size_t pick(const Key& key, std::span<const std::uint64_t> weights) override {
    return sound_.pick(change_(key), weights);
  }

 private:
  Chance& sound_;
  Change change_;
};

template <class Change>
std::unique_ptr<Chance> rekeyed(Chance& sound, Change change) {
  return std::make_unique<Rekeyed<Change>>(sound, change);
}

}  // namespace

std::unique_ptr<Chance> positions_collapse(Chance& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{key.sequence, 0, key.purpose}; });
}

std::unique_ptr<Chance> purposes_collapse(Chance& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{key.sequence, key.position, Purpose::draft}; });
}

std::unique_ptr<Chance> sequences_collapse(Chance& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{0, key.position, key.purpose}; });
}

std::unique_ptr<Chance> seed_ignored(Chance&) {
  static std::uint64_t run = 0;  // the state of a generator that all requests share
  return std::make_unique<SeededChance>(++run);
}

std::unique_ptr<Chance> numbered_by_call(Chance& sound) {
  return rekeyed(sound, [call = 0](const Key& key) mutable { return Key{key.sequence, call++, Purpose::target}; });
}

}  // namespace draftproof::zoo
