// SPDX-License-Identifier: MIT
#include "serve/response_store.h"

#include <algorithm>
#include <utility>

namespace draftproof::serve {
namespace {

/// The input of a request, as a list.
ForeignJson input_items(const ForeignJson& input) {
  if (!input.is_string()) return input;
  return ForeignJson::array({{{"type", "message"}, {"role", "user"}, {"content", input}}});
}

ForeignJson joined(ForeignJson list, const ForeignJson& more) {
  for (const ForeignJson& item : more) list.push_back(item);
  return list;
}

}  // namespace

std::list<ResponseStore::Stored>::const_iterator ResponseStore::place_of(const std::string& id, int tenant) const {
  return std::ranges::find_if(stored_, [&](const Stored& one) { return one.id == id && one.tenant == tenant; });
}

std::string ResponseStore::resolve(const std::string& body, int tenant) const {
  const Json request = parse_foreign(body);
  const auto previous = request.find("previous_response_id");
  if (!previous) return body;
  const Json input = request.at("input");
  if (!input.is_array() && !input.is_string()) return body;  // which is refused by its reader
  const std::string id = previous->string();
  std::string items;
  {
    const std::lock_guard lock(mutex_);
    const auto place = place_of(id, tenant);
    if (place == stored_.end()) {
      previous->fail("names no response that this server has; send the whole conversation as the input");
    }
    items = place->items;
  }
  if (items.size() + body.size() > request_max_) {
    previous->fail("has a conversation behind it that is longer than a request may be; begin another one");
  }
  ForeignJson whole = ForeignJson::parse(body);
  whole["input"] = joined(ForeignJson::parse(items), input_items(foreign(input)));
  return whole.dump();
}

void ResponseStore::add(const std::string& body, const std::string& response, int tenant) {
  const ForeignJson request = ForeignJson::parse(body);
  if (request.value("store", ForeignJson()) == ForeignJson(false)) return;
  const ForeignJson answer = ForeignJson::parse(response);
  Stored one = {answer["id"], tenant, joined(input_items(request["input"]), answer["output"]).dump(), response};
  remove(one.id, tenant);  // of a client that gives its requests one id
  const std::lock_guard lock(mutex_);
  bytes_ += one.bytes();
  stored_.push_back(std::move(one));
  std::map<int, std::size_t> of_tenants;
  for (const Stored& each : stored_) of_tenants[each.tenant] += each.bytes();
  while (bytes_ > bytes_max_) {
    const auto largest = std::ranges::max_element(of_tenants, {}, [](const auto& each) { return each.second; });
    const auto oldest = std::ranges::find(stored_, largest->first, &Stored::tenant);
    largest->second -= oldest->bytes();
    bytes_ -= oldest->bytes();
    stored_.erase(oldest);
  }
}

std::optional<std::string> ResponseStore::find(const std::string& id, int tenant) const {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(id, tenant);
  return place == stored_.end() ? std::nullopt : std::optional(place->response);
}

bool ResponseStore::remove(const std::string& id, int tenant) {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(id, tenant);
  if (place == stored_.end()) return false;
  bytes_ -= place->bytes();
  stored_.erase(place);
  return true;
}

}  // namespace draftproof::serve
