// SPDX-License-Identifier: MIT
// One file over HTTP, with libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace draftproof {

/// Where a hub is, and who asks.
struct HubAccess {
  std::string endpoint = "https://huggingface.co";
  std::string token;       // sent to the endpoint only, to no host that it redirects to; may be empty
  int stall_seconds = 60;  // without a byte, after which a transfer is given up

  /// As HF_ENDPOINT and HF_TOKEN say.
  static HubAccess of_environment();
};

struct Transfer {
  std::string url;
  std::uint64_t from = 0;                      // of the first byte wanted
  std::function<void()> start_over;            // the server sends everything, or has nothing from `from` on
  std::function<void(std::string_view)> take;  // what comes, in order; what it throws ends the transfer
};

/// Carries it out, redirections included. Throws Error, in one sentence that begins with `what`, when the server cannot
/// be reached, refuses, redirects from https to http, or ends too early.
void carry_out(Transfer transfer, const HubAccess& access, const std::string& what);

/// Returns all of a text of at most 64 MiB.
std::string get_text(const std::string& url, const HubAccess& access, const std::string& what);

}  // namespace draftproof
