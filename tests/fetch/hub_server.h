// SPDX-License-Identifier: MIT
// A server that behaves like Hugging Face, for one repository, and that can be told to misbehave.
#pragma once

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tools/fetch/blob_digest.h"

namespace draftproof::test {

inline const std::string commit(40, 'c');

class HubServer {
 public:
  struct Asked {
    std::string path;
    std::string range;
    std::string authorization;
  };

  /// What is wrong; set before the server is asked.
  struct Faults {
    int status = 0;                // of every answer; 0: the right one
    std::string retry_after = {};  // beside it
    std::size_t ends_at = 0;       // of a large file; 0: it is sent to its end
    bool stalls = false;           // there, instead of closing the connection
    bool no_ranges = false;        // everything is sent, whatever is asked for
    bool refuses_ranges = false;   // with status 416
    bool other_bytes = false;      // of the same number
    bool more_bytes = false;
    std::string redirect_to = {};        // of large files: where another server has them
    std::chrono::milliseconds pause{0};  // between pieces of a large file
  };

  HubServer() {
    http_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard hold(guard_);
      asked_.push_back({request.path, request.get_header_value("Range"), request.get_header_value("Authorization")});
      const bool refused = faults.refuses_ranges && request.has_header("Range");
      if (faults.status == 0 && !refused) return httplib::Server::HandlerResponse::Unhandled;
      response.status = refused ? 416 : faults.status;
      if (!faults.retry_after.empty()) response.set_header("Retry-After", faults.retry_after);
      response.set_content("{\"error\": \"said by the server\"}", "application/json");
      return httplib::Server::HandlerResponse::Handled;
    });
    http_.Get("/api/models/owner/name/revision/main", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(listing().dump(), "application/json");
    });
    http_.Get("/owner/name/resolve/" + commit + "/(.*)",
              [this](const httplib::Request& request, httplib::Response& response) {
                send(request, request.matches[1], response);
              });
    port_ = http_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~HubServer() {
    ending_ = true;
    http_.stop();
    thread_.join();
  }
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Asked> asked() const {
    const std::lock_guard hold(guard_);
    return asked_;
  }
  int times_asked_for(const std::string& file) const {
    int count = 0;
    for (const Asked& one : asked()) count += one.path.ends_with("/" + file) ? 1 : 0;
    return count;
  }

  static bool is_large(const std::string& name) { return name.ends_with(".safetensors") || name.ends_with(".gguf"); }
  static std::string digest_of(const std::string& name, const std::string& content) {
    if (is_large(name)) {
      Sha256 sha256;
      sha256.add(content);
      return sha256.hex();
    }
    Sha1 sha1;
    sha1.add(fmt::format("blob {}{}", content.size(), '\0') + content);
    return sha1.hex();
  }

  std::map<std::string, std::string> files;
  Faults faults;

 private:
  nlohmann::json listing() const {
    nlohmann::json siblings = nlohmann::json::array();
    for (const auto& [name, content] : files) {
      nlohmann::json entry = {{"rfilename", name}, {"size", content.size()}, {"blobId", std::string(40, 'b')}};
      if (is_large(name)) entry["lfs"] = {{"sha256", digest_of(name, content)}, {"size", content.size()}};
      else entry["blobId"] = digest_of(name, content);
      siblings.push_back(entry);
    }
    return {{"id", "owner/name"}, {"sha", commit}, {"siblings", siblings}};
  }

  void send(const httplib::Request& request, const std::string& name, httplib::Response& response) {
    const auto found = files.find(name);
    if (found == files.end()) {
      response.status = 404;
      return;
    }
    if (is_large(name) && !faults.redirect_to.empty()) {
      response.set_redirect(faults.redirect_to + request.path);
      return;
    }
    std::string content = found->second;
    if (faults.other_bytes) content.back() ^= 1;
    if (faults.more_bytes) content += "more";
    if (faults.no_ranges) const_cast<httplib::Request&>(request).ranges.clear();
    if (!is_large(name)) {
      response.set_content(content, "text/plain");
      return;
    }
    response.set_content_provider(content.size(), "application/octet-stream",
                                  [this, content](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                    std::size_t count = std::min<std::size_t>(length, 4096);
                                    if (faults.ends_at > 0) {
                                      if (offset >= faults.ends_at) {
                                        while (faults.stalls && !ending_)
                                          std::this_thread::sleep_for(std::chrono::milliseconds(10));
                                        return false;
                                      }
                                      count = std::min(count, faults.ends_at - offset);
                                    }
                                    std::this_thread::sleep_for(faults.pause);
                                    return !ending_ && sink.write(content.data() + offset, count);
                                  });
  }

  httplib::Server http_;
  std::thread thread_;
  int port_ = 0;
  std::atomic<bool> ending_ = false;
  mutable std::mutex guard_;
  std::vector<Asked> asked_;
};

}  // namespace draftproof::test
