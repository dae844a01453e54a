// SPDX-License-Identifier: MIT
// The requests that plain and speculative decoding are compared over: what engines have been found to get wrong, each
// option alone, because a fault may need that (vLLM's `top_k` without `top_p`), and together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/compare/asked_engine.h"

namespace draftproof {

struct MatrixCase {
  std::string name;
  /// Changes a greedy request. `plain`: what the plain engine wrote for it, from which stops and bans are taken.
  /// Returns false where that text does not allow it.
  std::function<bool(EngineRequest& request, const EngineText& plain)> change;
};

/// Requests with one right answer, and requests with a right distribution. `names`: which; empty: all.
std::vector<MatrixCase> certain_cases(const std::vector<std::string>& names = {});
std::vector<MatrixCase> sampled_cases(const std::vector<std::string>& names = {});
/// Throws Error, which lists all, for a name that neither has.
void require_cases(const std::vector<std::string>& names);

}  // namespace draftproof
