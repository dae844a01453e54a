// SPDX-License-Identifier: MIT
#include "serve/client.h"

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "ref/base/error.h"

namespace draftproof::serve {
namespace {

using namespace std::chrono_literals;

constexpr auto connection_timeout = 5s;

/// "http://HOST:PORT" of an address as clients are given them.
std::string address_of(const std::string& url) {
  std::string address = url.find("://") == std::string::npos ? "http://" + url : url;
  for (const std::string_view end : {"/", "/v1", "/"}) {
    if (address.ends_with(end)) address.resize(address.size() - end.size());
  }
  const std::size_t host = address.find("://") + 3;
  const bool known = address.starts_with("http://") || address.starts_with("https://");
  if (!known || address.size() == host || address.find('/', host) != std::string::npos) {
    throw Error(url + " is not the address of a server; give it as http://HOST:PORT");
  }
  return address;
}

/// Breaks the connection of a client that is waiting when the time is over. A limit on the time between two bytes, all
/// that the library has, never ends an answer that comes byte by byte.
class Deadline {
 public:
  Deadline(httplib::Client& client, std::chrono::seconds limit)
      : thread_([this, &client, limit](const std::stop_token& done) {
          std::unique_lock lock(mutex_);
          for (auto wait = std::chrono::milliseconds(limit);
               !ended_.wait_for(lock, done, wait, [] { return false; }) && !done.stop_requested(); wait = 100ms) {
            passed_ = true;
            client.stop();
          }
        }) {}
  bool passed() const noexcept { return passed_; }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::atomic<bool> passed_{false};
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace

bool EventReader::read(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte != '\n') {
      line_ += byte;
    } else if (!end_of_line()) {
      return false;
    }
  }
  return true;
}

bool EventReader::end_of_line() {
  std::string line = std::exchange(line_, "");
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) {  // the event ends
    const std::string data = std::exchange(data_, "");
    return data.empty() || take_(data);
  }
  if (!line.starts_with("data:")) return true;  // comments, and fields that nobody reads
  line.erase(0, line.starts_with("data: ") ? 6 : 5);
  data_ += (data_.empty() ? "" : "\n") + line;
  return true;
}

class Client::Http {
 public:
  Http(const std::string& address, const std::string& api_key, std::chrono::seconds limit)
      : address_(address), limit_(limit), client_(address) {
    if (!client_.is_valid()) throw Error(address + " is not the address of a server; give it as http://HOST:PORT");
    client_.set_connection_timeout(connection_timeout);
    client_.set_read_timeout(limit);
    client_.set_tcp_nodelay(true);
    if (!api_key.empty()) client_.set_bearer_token_auth(api_key);
  }

  Reply send(httplib::Request request, const EventReader::Take& take) {
    Reply reply;
    EventReader events(take);
    std::size_t received = 0;
    request.response_handler = [&](const httplib::Response& response) {
      reply.status = response.status;
      reply.retry_after = response.get_header_value("Retry-After");
      return true;
    };
    request.content_receiver = [&](const char* bytes, std::size_t size, std::uint64_t, std::uint64_t) {
      received += size;
      if (received > reply_bytes_max) return false;
      if (!take || reply.status != 200) {
        reply.body.append(bytes, size);
        return true;
      }
      reply.closed = !events.read({bytes, size});
      return !reply.closed;
    };
    const Deadline deadline(client_, limit_);
    const httplib::Result result = client_.send(request);
    // Where the end of the connection ends an answer, a connection that was broken off looks like a success.
    const bool in_time = !deadline.passed();
    if (in_time && (result || reply.closed)) return reply;
    if (received > reply_bytes_max) {
      throw Error(address_ + request.path + " sends more than " + std::to_string(reply_bytes_max >> 20) +
                  " MiB, which is no answer; see what answers there");
    }
    if (!in_time) {
      throw Error(address_ + request.path + " did not end its answer within " + std::to_string(limit_.count()) +
                  " seconds; see what the server says, or give it more time");
    }
    throw Error(sentence_of(result.error(), request.path));
  }

 private:
  std::string sentence_of(httplib::Error error, const std::string& path) const {
    switch (error) {
      case httplib::Error::Connection:
      case httplib::Error::ConnectionTimeout:
        return address_ + " cannot be reached; start a server there, or give the address of another";
      case httplib::Error::Read:
        return address_ + path + " broke off its answer, or gave none in time; see what the server says";
      default: return address_ + path + " gave no answer (" + httplib::to_string(error) + "); see what the server says";
    }
  }

  std::string address_;
  std::chrono::seconds limit_;
  httplib::Client client_;
};

Client::Client(const std::string& url, const std::string& api_key, std::chrono::seconds limit)
    : address_(address_of(url)), http_(std::make_unique<Http>(address_, api_key, limit)) {}

Client::~Client() = default;

Reply Client::get(const std::string& path) {
  httplib::Request request;
  request.method = "GET";
  request.path = path;
  return http_->send(std::move(request), {});
}

Reply Client::post(const std::string& path, const std::string& body, const EventReader::Take& take) {
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.set_header("Content-Type", "application/json");
  request.body = body;
  return http_->send(std::move(request), take);
}

std::string curl_line(const std::string& url, const std::string& body, bool with_key) {
  std::string quoted;
  for (const char c : body) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const char* const key = with_key ? " -H \"Authorization: Bearer $KEY\"" : "";
  return "curl -sN " + url + " -H 'Content-Type: application/json'" + key + " -d '" + quoted + "'";
}

}  // namespace draftproof::serve
