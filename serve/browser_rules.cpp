// SPDX-License-Identifier: MIT
#include "serve/browser_rules.h"

#include <arpa/inet.h>

#include <algorithm>

#include "ref/base/error.h"

namespace draftproof::serve {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

/// What follows "://"; empty when nothing does.
std::string_view authority(std::string_view origin) {
  const std::size_t at = origin.find("://");
  return at == std::string_view::npos ? std::string_view() : origin.substr(at + 3);
}

}  // namespace

std::string host_name(std::string_view host) {
  if (host.starts_with('[')) return lower(host.substr(1, host.find(']') - 1));
  host = host.substr(0, host.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

bool is_loopback(std::string_view host) {
  const std::string name = host_name(host);
  in_addr four{};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  return name == "localhost" || name.ends_with(".localhost") || name == "::1";
}

bool is_same(std::string_view origin, std::string_view host) {
  return !host.empty() && lower(authority(origin)) == lower(host);
}

void require_origins(const std::vector<std::string>& origins) {
  for (const std::string& origin : origins) {
    const std::string_view host = authority(origin);
    const bool sound = !host.empty() && host.find_first_of("/ ") == std::string_view::npos && lower(origin) == origin;
    if (origin != "*" && !sound) {
      throw Error("--cors " + origin +
                  ": is no origin; give SCHEME://HOST[:PORT] as browsers send it, in lower case "
                  "and without a path, or * for all");
    }
  }
}

}  // namespace draftproof::serve
