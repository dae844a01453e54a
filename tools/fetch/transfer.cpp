// SPDX-License-Identifier: MIT
#include "tools/fetch/transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr int redirections_max = 8;
constexpr std::size_t text_bytes_max = std::size_t{1} << 26;

std::string variable(const char* name, const std::string& unset) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? unset : value;
}

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
  const std::unique_ptr<char, void (*)(void*)> owned(text, curl_free);
  return text;
}

/// "https://host:443"
std::string origin_of(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parts(curl_url(), curl_url_cleanup);
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  return part_of(parts.get(), CURLUPART_SCHEME) + "://" + part_of(parts.get(), CURLUPART_HOST) + ":" +
         part_of(parts.get(), CURLUPART_PORT);
}

/// One request and its answer.
class Exchange {
 public:
  Exchange(const Transfer& transfer, const HubAccess& access, const std::string& what, const std::string& url)
      : transfer_(transfer), access_(access), what_(what), handle_(curl_easy_init(), curl_easy_cleanup) {
    if (handle_ == nullptr) throw Error(what + ": libcurl cannot begin a transfer");
    const bool trusted = origin_of(url) == origin_of(access.endpoint);
    if (trusted && !access.token.empty()) add_header("Authorization: Bearer " + access.token);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_USERAGENT, "draftproof");
    set(CURLOPT_PROTOCOLS_STR, access.endpoint.starts_with("http://") ? "http,https" : "https");
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(access.stall_seconds));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(access.stall_seconds));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_ERRORBUFFER, reason_);
    set(CURLOPT_WRITEFUNCTION, &Exchange::on_bytes);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERFUNCTION, &Exchange::on_header);
    set(CURLOPT_HEADERDATA, this);
    if (transfer.from > 0) set(CURLOPT_RANGE, (std::to_string(transfer.from) + "-").c_str());
  }

  /// Returns where the answer redirects to; empty when it was the file, or has no bytes from there on.
  std::string run() {
    const CURLcode result = curl_easy_perform(handle_.get());
    if (thrown_) std::rethrow_exception(thrown_);
    const long status = status_now();
    if (result != CURLE_OK) fail(result);
    if (status >= 300 && status < 400) return redirection();
    if (status != 200 && status != 206 && !has_no_such_range()) refuse(status);
    return "";
  }
  bool has_no_such_range() const { return status_now() == 416 && transfer_.from > 0; }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(handle_.get(), option, value);
  }
  void add_header(const std::string& line) { headers_.reset(curl_slist_append(headers_.release(), line.c_str())); }

  long status_now() const {
    long status = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  static std::size_t on_bytes(char* bytes, std::size_t, std::size_t count, void* self) {
    return static_cast<Exchange*>(self)->take({bytes, count});
  }
  std::size_t take(std::string_view bytes) {
    const long status = status_now();
    if (status != 200 && status != 206) return bytes.size();  // the text of an error
    try {
      if (!begun_ && transfer_.from > 0 && (status == 200 || !continues_)) transfer_.start_over();
      begun_ = true;
      transfer_.take(bytes);
      return bytes.size();
    } catch (...) {
      thrown_ = std::current_exception();
      return 0;
    }
  }

  static std::size_t on_header(char* bytes, std::size_t, std::size_t count, void* self) {
    static_cast<Exchange*>(self)->take_header({bytes, count});
    return count;
  }
  void take_header(std::string_view line) {
    std::string name(line.substr(0, line.find(':')));
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    std::string_view value = line.substr(std::min(line.size(), name.size() + 1));
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) value.remove_suffix(1);
    if (name == "retry-after") retry_after_ = value;
    if (name == "x-error-message") message_ = value;
    if (name == "content-range") continues_ = value.starts_with("bytes " + std::to_string(transfer_.from) + "-");
  }

  std::string redirection() const {
    char* next = nullptr;
    curl_easy_getinfo(handle_.get(), CURLINFO_REDIRECT_URL, &next);
    if (next == nullptr) throw Error(what_ + ": " + access_.endpoint + " redirects to nowhere");
    if (access_.endpoint.starts_with("https://") && !std::string_view(next).starts_with("https://")) {
      throw Error(what_ + ": " + access_.endpoint + " redirects to " + printable(next) + ", which is not encrypted");
    }
    return next;
  }

  [[noreturn]] void fail(CURLcode result) const {
    const std::string again = "; what came is kept, run the command again to go on";
    if (result == CURLE_OPERATION_TIMEDOUT) {
      throw Error(fmt::format("{}: the server sent nothing for {} seconds{}", what_, access_.stall_seconds,
                              begun_ ? again : "; try again"));
    }
    if (begun_) throw Error(what_ + ": the connection ended too early" + again);
    throw Error(fmt::format("{}: {} cannot be reached: {}", what_, access_.endpoint,
                            printable(*reason_ == '\0' ? curl_easy_strerror(result) : reason_)));
  }

  [[noreturn]] void refuse(long status) const {
    const std::string said = message_.empty() ? "" : ": " + printable(message_);
    if (status == 401 || status == 403) {
      throw Error(fmt::format("{}: {} ({}{})", what_,
                              access_.token.empty() ? "does not exist, or may be read with a token only; set HF_TOKEN"
                                                    : "does not exist, or the token in HF_TOKEN may not read it",
                              status, said));
    }
    if (status == 404) throw Error(fmt::format("{}: does not exist on {} (404{})", what_, access_.endpoint, said));
    if (status == 429) {
      throw Error(fmt::format("{}: {} asks to wait{}; run the command again later (429)", what_, access_.endpoint,
                              retry_after_.empty() ? "" : " " + printable(retry_after_) + " seconds"));
    }
    throw Error(fmt::format("{}: {} answers with status {}{}; try again later", what_, access_.endpoint, status, said));
  }

  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  const Transfer& transfer_;
  const HubAccess& access_;
  const std::string& what_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::unique_ptr<CURL, void (*)(CURL*)> handle_;
  char reason_[CURL_ERROR_SIZE] = "";
  std::string retry_after_;
  std::string message_;
  bool continues_ = false;  // the answer begins at `from`
  bool begun_ = false;
  std::exception_ptr thrown_;
};

}  // namespace

HubAccess HubAccess::of_environment() {
  HubAccess access;
  access.endpoint = variable("HF_ENDPOINT", access.endpoint);
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (!access.endpoint.starts_with("https://") && !access.endpoint.starts_with("http://")) {
    throw Error("HF_ENDPOINT is " + in_quotes(access.endpoint) + ", and must begin with https:// or http://");
  }
  access.token = variable("HF_TOKEN", "");
  constexpr std::string_view spaces = " \t\r\n";  // of the file that it was read from
  access.token.erase(0, std::min(access.token.find_first_not_of(spaces), access.token.size()));
  access.token.erase(access.token.find_last_not_of(spaces) + 1);
  if (std::ranges::any_of(access.token, [](char c) { return c <= ' ' || c > '~'; })) {
    throw Error("HF_TOKEN has spaces or other characters that no token has; set it again");
  }
  return access;
}

void carry_out(Transfer transfer, const HubAccess& access, const std::string& what) {
  std::string url = transfer.url;
  for (int count = 0; count < redirections_max; ++count) {
    Exchange exchange(transfer, access, what, url);
    url = exchange.run();
    if (!url.empty()) continue;
    if (!exchange.has_no_such_range()) return;
    transfer.start_over();
    transfer.from = 0;
    url = transfer.url;
  }
  throw Error(what + ": " + access.endpoint + " redirects too often");
}

std::string get_text(const std::string& url, const HubAccess& access, const std::string& what) {
  std::string text;
  carry_out({.url = url,
             .from = 0,
             .start_over = {},
             .take =
                 [&](std::string_view bytes) {
                   text += bytes;
                   if (text.size() > text_bytes_max) throw Error(what + ": is described in more than 64 MiB");
                 }},
            access, what);
  return text;
}

}  // namespace draftproof
