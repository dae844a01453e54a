// SPDX-License-Identifier: MIT
// Collects a row token by token, from a line or a file, and reports an error as soon as it appears.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "oracle/spectrace/events.h"

namespace draftproof::spectrace {

/// Weight: std::uint64_t where rows add up to the header's total, double where they add up to 1 up to rounding.
template <class Weight>
class RowParts {
 public:
  explicit RowParts(const Header& header) : header_(header), left_(header.total) {}

  /// Call add_token and add_weight in turn. Each returns what is wrong, or nullptr.
  const char* add_token(Token token) {
    if (token < 0 || token >= header_.vocabulary) return "is not a token of the vocabulary";
    if (!tokens.empty() && token <= tokens.back()) return "tokens must ascend";
    tokens.push_back(token);
    return nullptr;
  }
  const char* add_weight(std::uint64_t weight) {
    if (weight == 0) return "must be positive";
    if (weight > left_) return "the weights add up to more than total_weight";
    left_ -= weight;
    weights.push_back(weight);
    return nullptr;
  }
  const char* add_weight(double weight) {
    if (!(weight > 0)) return "must be positive";
    if (!(weight <= 1)) return "must not be above 1";
    sum_ += weight;
    weights.push_back(weight);
    return nullptr;
  }

  /// Returns what is wrong with the row as a whole; empty when nothing is.
  std::string fault() const {
    if (tokens.empty()) return "has no token";
    if (header_.total > 0) return left_ == 0 ? "" : "the weights add up to less than total_weight";
    if (std::fabs(sum_ - 1) <= 4 * header_.unit * static_cast<double>(tokens.size())) return "";
    return "the weights add up to " + std::to_string(sum_) + ", which is not 1 up to rounding";
  }

  std::vector<Token> tokens;
  std::vector<Weight> weights;

 private:
  const Header& header_;
  std::uint64_t left_;
  double sum_ = 0;
};

}  // namespace draftproof::spectrace
