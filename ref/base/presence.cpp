// SPDX-License-Identifier: MIT
#include "ref/base/presence.h"

#include <system_error>

#include "ref/base/error.h"

namespace draftproof {

bool is_present(const std::filesystem::path& path) {
  std::error_code failure;
  const auto named = std::filesystem::symlink_status(path, failure);
  if (named.type() == std::filesystem::file_type::not_found) return false;
  const auto status = failure ? named : std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw Error(path.string() + ": is a link to something that does not exist; fetch it, or remove the link");
  }
  if (failure) throw Error(path.string() + ": " + failure.message());
  return true;
}

}  // namespace draftproof
