// SPDX-License-Identifier: MIT
// The sizes in a body that comes in chunks (RFC 9112 section 7.1). cpp-httplib takes "0x5" and "+5" for sizes, and a
// chunk without an end for the last one, so that what follows would be the next request.
#pragma once

#include <cstddef>
#include <string_view>

namespace draftproof::serve {

class Chunks {
 public:
  /// The next bytes of the body. Returns whether they are right.
  bool take(std::string_view bytes);

 private:
  enum class Next { first_digit, digit, extension, size_lf, data, data_cr, data_lf, end_cr, end_lf, nothing };

  bool take(char byte);

  Next next_ = Next::first_digit;
  std::size_t size_ = 0;  // of the chunk, as far as it is known; then what is left of it
};

}  // namespace draftproof::serve
