// SPDX-License-Identifier: MIT
// What the server judges before anything else sees it: heads, and bodies in chunks. A judgment does not depend on the
// pieces that bytes come in.
#include <stdexcept>
#include <string>
#include <vector>

#include "serve/browser_rules.h"
#include "serve/chunks.h"
#include "serve/head.h"
#include "tests/fuzz/target.h"

namespace draftproof::serve::http_target {

bool are_right(std::string_view body, std::size_t piece) {
  Chunks chunks;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    if (!chunks.take(body.substr(at, piece))) return false;
  }
  return true;
}

bool run(const std::string& input) {
  const std::size_t size = head_size(input);
  if (size > input.size()) throw std::runtime_error("the head is longer than what came");
  for (std::size_t left = 1; left <= size; left = left < 5 ? left + 1 : 2 * left) {
    if (head_size(input, size - left) != size)
      throw std::runtime_error("a head ends elsewhere when it comes in pieces");
  }
  const std::string_view head = std::string_view(input).substr(0, size);
  const bool sound = size > 0 && !fault_of_head(head);
  const std::string_view body = std::string_view(input).substr(size);
  const bool right = are_right(body, body.size() + 1);
  for (const std::size_t piece : {1, 2, 3, 7}) {
    if (are_right(body, piece) != right) throw std::runtime_error("chunks are judged otherwise in pieces");
  }
  is_loopback(body);
  is_same(body, head);
  host_name(body);
  return sound && right;
}

std::vector<std::string> seeds() {
  const std::string chunked = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  return {"GET /health HTTP/1.1\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\nAccept: */*\r\n\r\n",
          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
          "Authorization: Bearer abc\r\n\r\n",
          chunked + "2\r\n{}\r\n0\r\n\r\n",
          chunked + "a;name=\"value\"\r\n0123456789\r\n0A\r\n0123456789\r\n0\r\n\r\n",
          "POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: gzip, chunked\r\nExpect: 100-continue\r\n\r\n"};
}

}  // namespace draftproof::serve::http_target

namespace draftproof::fuzz {

const Target http = {"http", serve::http_target::run, serve::http_target::seeds};

}  // namespace draftproof::fuzz
