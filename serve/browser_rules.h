// SPDX-License-Identifier: MIT
// What a browser may ask in the name of the pages that are open in it. Any page can have a browser on this machine send
// requests to a local server; and a page whose name its owner has led to 127.0.0.1 (DNS rebinding) can read the answers
// as well. The headers Host and Origin tell, and no page can forge them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace draftproof::serve {

/// Whether `host`, the value of the header, names this machine's loopback interface, with a port or without.
bool is_loopback(std::string_view host);

/// Whether both headers name the same host and port.
bool is_same(std::string_view origin, std::string_view host);

/// `host` without the port, in lower case.
std::string host_name(std::string_view host);

/// Throws Error unless each is "*" or an origin as browsers write it: SCHEME://HOST or SCHEME://HOST:PORT.
void require_origins(const std::vector<std::string>& origins);

}  // namespace draftproof::serve
