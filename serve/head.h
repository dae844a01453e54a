// SPDX-License-Identifier: MIT
// The head of a request, judged byte by byte before anything acts upon it. A server that reads a head otherwise than
// the proxy in front of it takes the body of one client's request for a request of its own (request smuggling), so
// whatever could be read in two ways is refused: RFC 9112 sections 2.2, 3.2, 5.1, 5.2 and 6, RFC 9110 section 5.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace draftproof::serve {

/// Why a head is refused.
struct HeadFault {
  int status;            // 400, 414 or 431
  std::string_view why;  // a sentence for the client
};

/// Returns the size of the head at the beginning of `bytes`, with the empty line that ends it; 0 when that line has not
/// come. The first `seen` bytes have none. A line may end without CR here, so that such a head is refused at once.
std::size_t head_size(std::string_view bytes, std::size_t seen = 0);

/// Returns nullopt when the head, whole, can be read in one way only.
std::optional<HeadFault> fault_of_head(std::string_view head);

}  // namespace draftproof::serve
