// SPDX-License-Identifier: MIT
#include "ref/drafts/token_file.h"

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/token.h"

namespace draftproof {

std::uint64_t bytes_in_token_file(const std::filesystem::path& file, const std::string& wanted) {
  const std::string name = file.string();
  if (!is_present(file)) throw Error(name + ": cannot be found; name a file of tokens");
  std::error_code failure;
  if (!std::filesystem::is_regular_file(file, failure)) throw Error(name + ": is not a file; " + wanted);
  const std::uintmax_t bytes = std::filesystem::file_size(file, failure);
  if (failure) throw Error(name + ": cannot be read: " + failure.message());
  if (bytes == 0) throw Error(name + ": is empty; " + wanted);
  if (bytes % sizeof(Token) != 0) {
    throw Error(name + ": ends within a token, at offset " + std::to_string(bytes - bytes % sizeof(Token)) + "; " +
                wanted);
  }
  return bytes;
}

}  // namespace draftproof
