// SPDX-License-Identifier: MIT
// Tests the reader of fixtures in an endless loop: with damaged bytes, which the hash must detect; and with invalid
// files that have a correct hash: arrays of other types, shapes and values, fields that are missing or swapped. Every
// outcome must be an Error, or a fixture that can be compared and written again.
//
//     fuzz_fixtures [--seconds N] [--seed N]
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>

#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"
#include "tests/oracle/fixture_parts.h"

namespace draftproof {
namespace {

template <class T>
T odd_number(Numbers& numbers) {
  using Limits = std::numeric_limits<T>;
  const T extremes[] = {T(0),
                        T(1),
                        T(-1),
                        T(2),
                        T(3),
                        Limits::lowest(),
                        Limits::max(),
                        Limits::min(),
                        Limits::has_infinity ? Limits::infinity() : T(7),
                        Limits::has_quiet_NaN ? Limits::quiet_NaN() : T(8)};
  return extremes[numbers.below(std::size(extremes))];
}

template <class T>
Array<T> odd_array(Numbers& numbers) {
  Array<T> array;
  std::size_t count = 1;
  for (std::size_t rank = numbers.below(4); rank-- > 0;) {
    array.shape.push_back(static_cast<std::int64_t>(numbers.below(7)));
    count *= static_cast<std::size_t>(array.shape.back());
  }
  for (std::size_t i = 0; i < count; ++i) array.values.push_back(odd_number<T>(numbers));
  return array;
}

FixtureParts::AnyArray odd_array_of_any_type(Numbers& numbers) {
  switch (numbers.below(6)) {
    case 0: return odd_array<float>(numbers);
    case 1: return odd_array<double>(numbers);
    case 2: return odd_array<std::int32_t>(numbers);
    case 3: return odd_array<std::int64_t>(numbers);
    case 4: return odd_array<std::uint8_t>(numbers);
    default: return odd_array<std::uint64_t>(numbers);
  }
}

template <class Map>
auto any_of(Map& map, Numbers& numbers) {
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(numbers.below(map.size())));
}

void put_together_wrongly(FixtureParts& parts, Numbers& numbers) {
  const auto array = any_of(parts.arrays, numbers);
  const auto text = any_of(parts.texts, numbers);
  switch (numbers.below(6)) {
    case 0: array->second = odd_array_of_any_type(numbers); return;
    case 1: std::swap(array->second, any_of(parts.arrays, numbers)->second); return;
    case 2: std::swap(text->second, any_of(parts.texts, numbers)->second); return;
    case 3:
      if (numbers.below(2) == 0) {
        parts.arrays.erase(array);
      } else {
        parts.texts.erase(text);
      }
      return;
    case 4: damage(text->second, any_of(parts.texts, numbers)->second, numbers); return;
    default:
      std::visit(
          [&](auto& content) {
            using T = typename std::decay_t<decltype(content.values)>::value_type;
            if (!content.values.empty()) content.values[numbers.below(content.values.size())] = odd_number<T>(numbers);
          },
          array->second);
  }
}

int fuzz(double seconds, std::uint64_t seed) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("draftproof-fuzz-" + std::to_string(getpid()) + "-" + std::to_string(seed) + ".h5");
  const Fixture good = small_fixture();
  write_fixture(file, good);
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
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
      FixtureParts parts(good);
      for (std::size_t times = 1 + numbers.below(3); times-- > 0;) put_together_wrongly(parts, numbers);
      parts.write(file);
    }
    try {
      const bool read = accepted([&] {
        const Fixture found = read_fixture(file);
        difference(good, found).text();
        difference(found, good).text();
        Fixture again = found;
        again.reason = "again";
        write_fixture(file, again);
        if (!difference(found, read_fixture(file)).empty()) throw std::runtime_error("it did not come back");
      });
      if (by_bytes && read && damaged != bytes) throw std::runtime_error("damaged bytes were accepted");
      taken += read ? 1 : 0;
    } catch (const std::exception& error) {
      std::printf("round %llu: %s\n%s\n", rounds, error.what(), file.c_str());
      return 1;
    }
    ++rounds;
  }
  std::filesystem::remove(file);
  std::printf("%llu fixtures, damaged or put together wrongly, accepted %llu times\n", rounds, taken);
  return rounds > 0 && taken > 0 && taken < rounds ? 0 : 1;
}

}  // namespace
}  // namespace draftproof

int main(int count, char** arguments) {
  const draftproof::FuzzOptions options = draftproof::read_fuzz_options(count, arguments);
  return draftproof::fuzz(options.seconds, options.seed);
}
