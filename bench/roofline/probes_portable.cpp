// SPDX-License-Identifier: MIT
// The probes for CPUs without a file of their own: plain loops, as fast as the compiler makes them.
#include <cstdint>

#include "bench/roofline/probes.h"

namespace draftproof {
namespace {

struct Lanes {
  float v[16];
};
struct Ints {
  std::int32_t v[16];
};
struct Bytes {
  std::uint64_t v[8];
};
constexpr int tile_rows_max = 6;

Lanes spread(float x) {
  Lanes a;
  for (float& lane : a.v) lane = x;
  return a;
}
Lanes load(const float* from) {
  Lanes a;
  __builtin_memcpy(a.v, from, sizeof a.v);
  return a;
}
Ints spread_int(std::int32_t x) {
  Ints a;
  for (std::int32_t& lane : a.v) lane = x;
  return a;
}
Lanes operator+(Lanes a, Lanes b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
Ints operator+(Ints a, Ints b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
Lanes fused(Lanes a, Lanes b, Lanes c) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] * b.v[i] + c.v[i];
  return a;
}
float tree(Lanes a) {
  float sum = 0;
  for (const float lane : a.v) sum += lane;
  return sum;
}
std::int32_t sum_of(Ints a) {
  std::int32_t sum = 0;
  for (const std::int32_t lane : a.v) sum += lane;
  return sum;
}
Bytes load_bytes(const char* from) {
  Bytes a;
  __builtin_memcpy(a.v, from, sizeof a.v);
  return a;
}
Bytes operator|(Bytes a, Bytes b) {
  for (int i = 0; i < 8; ++i) a.v[i] |= b.v[i];
  return a;
}
Bytes bytes_of(int value) {
  Bytes a;
  __builtin_memset(a.v, value, sizeof a.v);
  return a;
}
Bytes low_fours(Bytes a) {
  for (std::uint64_t& eight : a.v) eight &= 0x0f0f0f0f0f0f0f0fULL;
  return a;
}
Ints dot_unsigned(Ints sum, Bytes w, Ints x) {
  unsigned char weights[64];
  signed char factors[64];
  __builtin_memcpy(weights, w.v, sizeof weights);
  __builtin_memcpy(factors, x.v, sizeof factors);
  for (int i = 0; i < 64; ++i) sum.v[i / 4] += weights[i] * factors[i];
  return sum;
}

bool always() noexcept { return true; }

}  // namespace
}  // namespace draftproof

#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {
constexpr Probes table = probes_of("portable", always);
}  // namespace
const Probes* portable_probes() noexcept { return &table; }
}  // namespace draftproof
