// SPDX-License-Identifier: MIT
#include "tools/complaint.h"

#include <fmt/format.h>

#include "ref/formats/printable.h"

namespace draftproof {

void complain(std::string_view sentence) {
  constexpr std::size_t bytes_max = 800;
  fmt::print(stderr, "draftproof: {}\n", printable(sentence, bytes_max));
}

}  // namespace draftproof
