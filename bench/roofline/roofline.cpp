// SPDX-License-Identifier: MIT
#include "bench/roofline/roofline.h"

#include <cstring>
#include <vector>

#include "kernels/aligned.h"
#include "kernels/tables.h"
#include "kernels/threads.h"

namespace draftproof {
namespace {

constexpr std::size_t piece = std::size_t{1} << 16;
constexpr double plenty = 1e12;  // never too little to share
constexpr int loops = 200'000;   // half a millisecond

const Probes& best_probes() {
  for (const Probes* table :
       {amx_probes(), avx512_bf16_probes(), avx512_vnni_probes(), avx512_probes(), avx2_vnni_probes(), avx2_probes()}) {
    const bool slow = table == avx512_bf16_probes() && !cpu_is_fast_at_avx512_bf16();
    if (table != nullptr && table->supported() && !slow) return *table;
  }
  return *portable_probes();
}

/// The same share for every thread, as the kernels share a weight out.
double multiply(double (*probe)(int) noexcept) {
  constexpr int shares = 64;
  std::vector<double> done(shares);
  parallel_ranges(shares, plenty, shares, [&](int begin, int end, int) {
    for (int i = begin; i < end; ++i) done[i] = probe(loops);
  });
  double sum = 0;
  for (const double part : done) sum += part;
  return sum;
}

}  // namespace

Roofline::Roofline(std::size_t bytes)
    : probes_(best_probes()), bytes_(bytes / piece * piece), memory_(aligned<char>(bytes_)) {
  const auto pieces = static_cast<int>(bytes_ / piece);
  parallel_ranges(pieces, plenty, pieces, [&](int begin, int end, int) {
    const std::size_t first = static_cast<std::size_t>(begin) * piece;
    std::memset(memory_.get() + first, 1, static_cast<std::size_t>(end) * piece - first);
  });
}

double Roofline::read() const {
  const auto pieces = static_cast<int>(bytes_ / piece);
  parallel_ranges(pieces, plenty, pieces, [&](int begin, int end, int) {
    const std::size_t first = static_cast<std::size_t>(begin) * piece;
    probes_.read(memory_.get() + first, static_cast<std::size_t>(end) * piece - first);
  });
  return static_cast<double>(bytes_);
}

double Roofline::multiply_floats() const { return multiply(probes_.multiply_floats); }
double Roofline::multiply_bf16() const { return multiply(probes_.multiply_bf16); }
double Roofline::multiply_bytes() const { return multiply(probes_.multiply_bytes); }

}  // namespace draftproof
