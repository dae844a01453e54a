// SPDX-License-Identifier: MIT
// `verify --endpoint`: holds a running server to its promise, over HTTP. Clients ask many requests at once, some go
// away in the middle, and every answer is compared with plain decoding here.
#pragma once

#include <string>

#include "tools/options.h"

namespace draftproof {

struct EndpointOptions {
  std::string url;
  std::string api_key;
  std::string template_file;  // empty: the model's own
  int clients = 8;
  int requests = 64;
  int seconds = 0;           // after which no request begins; 0: all do
  int answer_seconds = 600;  // of one answer, at most
};

Exit verify_endpoint(const CommonOptions& common, const EndpointOptions& endpoint);

}  // namespace draftproof
