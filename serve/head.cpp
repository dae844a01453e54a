// SPDX-License-Identifier: MIT
#include "serve/head.h"

#include <strings.h>

#include <algorithm>
#include <string>

namespace draftproof::serve {
namespace {

constexpr std::size_t line_max = 8192;  // bytes; cpp-httplib reads no longer ones

constexpr HeadFault not_http = {400, "the request is not HTTP that this server understands"};
constexpr HeadFault odd_line = {400,
                                "a line of the head is not \"Name: value\": a name has letters, digits and hyphens "
                                "with the colon right behind them, a line ends in CR LF and is not continued in "
                                "the next, and there are no control characters"};
constexpr HeadFault odd_length = {400,
                                  "the length of the request is not certain; send one Content-Length, or "
                                  "Transfer-Encoding: chunked"};
constexpr HeadFault odd_host = {400, "a request of HTTP/1.1 has one Host"};
constexpr HeadFault long_path = {414, "the path is too long"};
constexpr HeadFault long_line = {431, "a line of the head is longer than 8 KiB"};

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A character of a token, but no underscore: what stands behind CGI cannot tell it from a hyphen.
bool is_of_name(char c) {
  return is_alphanumeric(c) || std::string_view("!#$%&'*+-.^`|~").find(c) != std::string::npos;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }

bool equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* blanks = " \t";
  const std::size_t first = std::min(text.find_first_not_of(blanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

bool is_request_line(std::string_view line) {
  return std::ranges::count(line, ' ') == 2 && std::ranges::none_of(line, is_control) &&
         (line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0"));
}

/// What the fields say of the request's end, and for whom it is.
struct Framing {
  int lengths = 0;
  int codings = 0;
  int hosts = 0;
  bool sound = true;

  void take(std::string_view name, std::string_view value) {
    if (equal(name, "Content-Length")) {
      ++lengths;
      sound = sound && !value.empty() && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
    } else if (equal(name, "Transfer-Encoding")) {
      ++codings;
      sound = sound && equal(value, "chunked");
    } else if (equal(name, "Host")) {
      ++hosts;
    }
  }
};

}  // namespace

std::size_t head_size(std::string_view bytes, std::size_t seen) {
  constexpr std::size_t overlap = 2;  // the empty line is LF LF or LF CR LF, of which two bytes may have been seen
  for (std::size_t at = bytes.find('\n', seen - std::min(seen, overlap)); at != std::string_view::npos;
       at = bytes.find('\n', at + 1)) {
    const std::string_view behind = bytes.substr(at + 1);
    if (behind.starts_with('\n')) return at + 2;
    if (behind.starts_with("\r\n")) return at + 3;
  }
  return 0;
}

std::optional<HeadFault> fault_of_head(std::string_view head) {
  Framing framing;
  std::string_view request_line;
  while (!head.empty()) {
    const std::size_t end = head.find('\n');
    if (end == std::string_view::npos || end == 0 || head[end - 1] != '\r') return odd_line;
    const std::string_view line = head.substr(0, end - 1);
    head.remove_prefix(end + 1);
    if (request_line.empty()) {
      if (line.size() > line_max) return long_path;
      if (!is_request_line(line)) return not_http;
      request_line = line;
      continue;
    }
    if (line.empty()) break;
    if (line.size() > line_max) return long_line;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return odd_line;
    const std::string_view name = line.substr(0, colon);
    const auto is_odd = [](char c) { return is_control(c) && c != '\t'; };
    if (!std::ranges::all_of(name, is_of_name) || std::ranges::any_of(line, is_odd)) return odd_line;
    framing.take(name, trimmed(line.substr(colon + 1)));
  }
  const bool is_old = request_line.ends_with("1.0");
  if (!framing.sound || framing.lengths + framing.codings > 1 || (is_old && framing.codings > 0)) return odd_length;
  if (framing.hosts > 1 || (framing.hosts == 0 && !is_old)) return odd_host;
  return std::nullopt;
}

}  // namespace draftproof::serve
