// SPDX-License-Identifier: MIT
#include "tools/complaint.h"

#include <fmt/format.h>
#include <unistd.h>

#include "ref/formats/printable.h"

namespace draftproof {

void complain(std::string_view message) {
  constexpr std::size_t bytes_max = 800;
  const std::string spelt_out = printable(message, message.size());  // a byte may take four
  fmt::print(stderr, "draftproof: {}\n", printable(spelt_out, bytes_max));
}

void complain_without_memory(std::string_view line) noexcept {
  [[maybe_unused]] const ssize_t printed = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace draftproof
