// SPDX-License-Identifier: MIT
// Responses of /v1/responses that later requests go on with (previous_response_id): what was asked and answered, as
// items. An API key reaches its own only. When there are too many bytes, the oldest of the key that has the largest
// part of them is forgotten.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "serve/foreign_json.h"

namespace draftproof::serve {

class ResponseStore {
 public:
  /// `request_max`: the most bytes of a request with the items of its previous response.
  ResponseStore(std::size_t bytes_max, std::size_t request_max) : bytes_max_(bytes_max), request_max_(request_max) {}

  /// The body of a request, with the items of its previous response in front of its own. Throws Error for one that is
  /// not there, and for a conversation that has become too long.
  std::string resolve(const std::string& body, int tenant) const;
  /// Keeps the answer to a request that was resolved, unless it has `"store": false`.
  void add(const std::string& body, const std::string& response, int tenant);

  /// The response; nullopt: there is none.
  std::optional<std::string> find(const std::string& id, int tenant) const;
  /// Returns whether there was one.
  bool remove(const std::string& id, int tenant);

 private:
  struct Stored {
    std::string id;
    int tenant;
    std::string items;  // a list
    std::string response;
    std::size_t bytes() const noexcept { return id.size() + items.size() + response.size(); }
  };
  std::list<Stored>::const_iterator place_of(const std::string& id, int tenant) const;

  const std::size_t bytes_max_;
  const std::size_t request_max_;
  mutable std::mutex mutex_;
  std::list<Stored> stored_;  // the oldest first
  std::size_t bytes_ = 0;
};

}  // namespace draftproof::serve
