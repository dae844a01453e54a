// SPDX-License-Identifier: MIT
// What other programs have stored of the rows of a fixture, and how far ours are from it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ref/formats/hdf5.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"

namespace draftproof::test {

/// The largest errors so far, over their bounds: from PATHfloat64/NAME, which is exact, and PATHfloat32/NAME. Two
/// programs in float32 are each within the bound of what is exact.
class WorstErrors {
 public:
  explicit WorstErrors(const Hdf5& file) : file_(file) {}

  /// Expects rows to be within their bounds, one for each.
  void expect_within(const std::vector<float>& got, const std::string& path, const std::string& name,
                     const std::vector<double>& bound, const std::string& kernels) {
    const auto exact = stored<double>(file_, path + "float64/" + name);
    const int width = static_cast<int>(exact.size() / bound.size());
    const double of64 = worst_ratio(got, exact, width, bound);
    const double of32 = worst_ratio(got, stored<float>(file_, path + "float32/" + name), width, bound) / 2;
    EXPECT_LE(of64, 1) << kernels << " " << path << name;
    EXPECT_LE(of32, 1) << kernels << " " << path << name;
    of64_ = std::max(of64_, of64);
    of32_ = std::max(of32_, of32);
  }

  void print(const std::string& fixture, const std::string& kernels, const std::vector<double>& of_logits) const {
    fmt::print("{} {}: observed/bound {:.2f} of float64, {:.2f} of float32; logits bound {:.1e}\n", fixture, kernels,
               of64_, of32_, *std::ranges::max_element(of_logits));
  }

 private:
  const Hdf5& file_;
  double of64_ = 0;
  double of32_ = 0;
};

}  // namespace draftproof::test
