// SPDX-License-Identifier: MIT
#include "tools/version.h"

#include <fmt/format.h>

#include "kernels/kernels.h"

namespace draftproof {

std::string version_text() {
  const Kernels& kernels = best_kernels();
  return fmt::format("draftproof {}\ncommit {}\nkernels {} (numerics {})\n", DRAFTPROOF_VERSION, commit, kernels.name,
                     kernels.numerics);
}

}  // namespace draftproof
