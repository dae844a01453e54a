// SPDX-License-Identifier: MIT
// Fuzzes the reader of saved prefix caches. It damages bytes, which the hash must find; and it changes, swaps and
// removes arrays and texts under a right hash. Every outcome must be an Error, or a prefix cache that can be searched,
// restored from, added to and saved again.
//
//     fuzz_prefix_cache [--seconds N] [--seed N]
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>

#include "tests/decoding/prefix_parts.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"

namespace draftproof {
namespace {

using prefix_parts::Both;
using prefix_parts::FileParts;
using prefix_parts::Text;

template <class T>
T odd_number(T now, Numbers& numbers) {
  using Limits = std::numeric_limits<T>;
  const T odd[] = {T(0),          T(1),          T(-1),         T(2),          T(3),
                   T(now + T(1)), T(now - T(1)), T(now * T(2)), Limits::max(), Limits::lowest()};
  return odd[numbers.below(std::size(odd))];
}
template <>
std::int64_t odd_number(std::int64_t now, Numbers& numbers) {
  const auto wide = static_cast<std::uint64_t>(now);
  const std::uint64_t odd[] = {0,
                               1,
                               ~0ULL,
                               2,
                               3,
                               4,
                               wide + 1,
                               wide - 1,
                               wide * 2,
                               ~0ULL >> 1,
                               1ULL << 63,
                               1ULL << 31,
                               (1ULL << 31) - 1,
                               1ULL << 32,
                               1ULL << 61};
  return static_cast<std::int64_t>(odd[numbers.below(std::size(odd))]);
}
template <>
std::int32_t odd_number(std::int32_t now, Numbers& numbers) {
  return static_cast<std::int32_t>(odd_number<std::int64_t>(now, numbers));
}

template <class Map>
auto any_of(Map& map, Numbers& numbers) {
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(numbers.below(map.size())));
}

void put_together_wrongly(FileParts& parts, Numbers& numbers) {
  const auto array = any_of(parts.arrays, numbers);
  const auto text = any_of(parts.texts, numbers);
  switch (numbers.below(12)) {
    case 0: std::swap(array->second, any_of(parts.arrays, numbers)->second); return;
    case 1: std::swap(text->second, any_of(parts.texts, numbers)->second); return;
    case 2: parts.arrays.erase(array); return;
    case 3: parts.texts.erase(text); return;
    case 4: damage(text->second, any_of(parts.texts, numbers)->second, numbers); return;
    case 5: array->second = Array<double>{{2}, {0.5, 1e300}}; return;
    case 6:
      std::visit(
          [&](auto& content) {
            content.values.resize(numbers.below(2 * content.values.size() + 2));
            content.shape = {static_cast<std::int64_t>(content.values.size())};
          },
          array->second);
      return;
    default:
      std::visit(
          [&](auto& content) {
            if (content.values.empty()) return;
            auto& value = content.values[numbers.below(content.values.size())];
            value = odd_number(value, numbers);
          },
          array->second);
  }
}

/// Uses a prefix cache in every way, whatever it holds.
void use(PrefixCache& prefixes, Numbers& numbers) {
  for (int times = 0; times < 6; ++times) {
    Text text;
    const std::vector<Text> texts = prefix_parts::sample_texts();
    text = texts[numbers.below(texts.size())];
    text.resize(1 + numbers.below(text.size()));
    for (std::size_t more = numbers.below(4); more-- > 0;) text.push_back(static_cast<Token>(numbers.below(10)));
    Both both;
    {
      const PrefixCache::Lease lease = prefixes.find(text, static_cast<int>(numbers.below(12)), {"target", "draft"});
      // Only a hostile file has texts beyond the capacity.
      if (lease.length() <= both.target.capacity()) prefixes.restore(lease, both.parts());
    }
    both.read(text);
    if (both.target.length() <= static_cast<int>(text.size())) prefixes.insert(text, both.parts());
  }
}

int fuzz(double seconds, std::uint64_t seed) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("draftproof-fuzz-" + std::to_string(getpid()) + "-" + std::to_string(seed) + ".h5");
  PrefixCache good(std::size_t{1} << 20);
  prefix_parts::fill(good);
  save_prefix_cache(good, prefix_parts::origin(), file);
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const FileParts good_parts(file);
  const auto start = std::chrono::steady_clock::now();
  Numbers numbers(seed);
  unsigned long long rounds = 0;
  unsigned long long taken = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    const bool by_bytes = numbers.below(4) == 0;
    std::string damaged = bytes;
    std::filesystem::remove(file);
    if (by_bytes) {
      damage(damaged, bytes, numbers);
      std::ofstream(file, std::ios::binary) << damaged;
    } else {
      FileParts parts = good_parts;
      for (std::size_t times = 1 + numbers.below(3); times-- > 0;) put_together_wrongly(parts, numbers);
      parts.write(file);
    }
    try {
      PrefixCache found(numbers.below(8) == 0 ? 300 : std::size_t{1} << 20);
      const bool read = accepted([&] { prefix_parts::load(found, file); });
      if (!read && found.bytes() != 0) throw std::runtime_error("a file that was rejected left something");
      if (by_bytes && read && damaged != bytes) throw std::runtime_error("damaged bytes were accepted");
      if (read) {
        use(found, numbers);
        save_prefix_cache(found, prefix_parts::origin(), file);
        PrefixCache again(std::size_t{1} << 20);
        prefix_parts::load(again, file);
        if (again.bytes() != found.bytes()) throw std::runtime_error("it did not come back");
      }
      taken += read ? 1 : 0;
    } catch (const std::exception& error) {
      std::printf("round %llu: %s\n%s\n", rounds, error.what(), file.c_str());
      return 1;
    }
    ++rounds;
  }
  std::filesystem::remove(file);
  std::printf("%llu prefix caches, damaged or put together wrongly, accepted %llu times\n", rounds, taken);
  return rounds > 0 && taken > 0 && taken < rounds ? 0 : 1;
}

}  // namespace
}  // namespace draftproof

int main(int count, char** arguments) {
  const draftproof::FuzzOptions options = draftproof::read_fuzz_options(count, arguments);
  return draftproof::fuzz(options.seconds, options.seed);
}
