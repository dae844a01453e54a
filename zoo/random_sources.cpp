// SPDX-License-Identifier: MIT
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

/// Draws from the sound source under another key.
template <class Change>
class Rekeyed final : public RandomSource {
 public:
  Rekeyed(RandomSource& sound, Change change) : sound_(sound), change_(change) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    return sound_.sample_index(change_(key), weights);
  }

 private:
  RandomSource& sound_;
  Change change_;
};

template <class Change>
std::unique_ptr<RandomSource> rekeyed(RandomSource& sound, Change change) {
  return std::make_unique<Rekeyed<Change>>(sound, change);
}

}  // namespace

std::unique_ptr<RandomSource> positions_collapse(RandomSource& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{key.sequence, 0, key.purpose, key.depth}; });
}

std::unique_ptr<RandomSource> draft_noise_again(RandomSource& sound) {
  return rekeyed(sound, [](const Key& key) {
    return key.purpose == Purpose::draft ? Key{key.sequence, key.depth, key.purpose, key.depth} : key;
  });
}

std::unique_ptr<RandomSource> purposes_collapse(RandomSource& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{key.sequence, key.position, Purpose::draft, key.depth}; });
}

std::unique_ptr<RandomSource> sequences_collapse(RandomSource& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{0, key.position, key.purpose, key.depth}; });
}

std::unique_ptr<RandomSource> keyed_by_place(RandomSource& sound, int place) {
  return rekeyed(sound, [place](const Key& key) { return Key{place, key.position, key.purpose, key.depth}; });
}

std::unique_ptr<RandomSource> rounds_collapse(RandomSource& sound) {
  return rekeyed(sound, [](const Key& key) { return Key{key.sequence, key.position, key.purpose}; });
}

std::unique_ptr<RandomSource> seed_ignored(RandomSource&) {
  static std::uint64_t run = 0;  // the state of a generator that all requests share
  return std::make_unique<PhiloxSource>(++run);
}

std::unique_ptr<RandomSource> numbered_by_call(RandomSource& sound) {
  return rekeyed(sound, [call = 0](const Key& key) mutable { return Key{key.sequence, call++, Purpose::target}; });
}

}  // namespace draftproof::zoo
