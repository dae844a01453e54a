// SPDX-License-Identifier: MIT
#include "serve/listening_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "ref/base/error.h"

namespace draftproof::serve {
namespace {

/// Connections inherit the options.
void set_options_of(int file) {
  const auto set = [&](int level, int option, int value) { setsockopt(file, level, option, &value, sizeof(value)); };
  set(SOL_SOCKET, SO_REUSEADDR, 1);
  set(IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer that has vanished without a word is noticed after half a minute.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/// Returns -1 when it cannot be, and errno says why.
int listen_at(const addrinfo& address) {
  const int file = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return -1;
  set_options_of(file);
  if (bind(file, address.ai_addr, address.ai_addrlen) == 0 && listen(file, SOMAXCONN) == 0) return file;
  const int why = errno;
  close(file);
  errno = why;
  return -1;
}

[[noreturn]] void refuse(const std::string& host, int port, int why) {
  if (why == EADDRNOTAVAIL) {
    throw Error(
        fmt::format("--host {}: is no address of this machine; give one that it has, 127.0.0.1 for itself "
                    "alone, "
                    "or 0.0.0.0 for all",
                    host));
  }
  const std::string place = fmt::format("cannot listen on {} port {}", host, port);
  if (why == EADDRINUSE) throw Error(place + ", which is in use; choose another --port, or stop what uses it");
  if (why == EACCES) throw Error(place + ", for which rights are missing; choose a --port above 1023");
  throw Error(place + ": " + std::generic_category().message(why));
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& host, int port) {
  if (std::ranges::count(host, ':') == 1) {
    throw Error(fmt::format("--host {}: is no address; give the address alone, and the port by --port", host));
  }
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int wrong = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found); wrong != 0) {
    throw Error(fmt::format("--host {}: is no name or address of a host ({}); give an address of this machine", host,
                            gai_strerror(wrong)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr && file_ < 0; address = address->ai_next) {
    file_ = listen_at(*address);
  }
  if (file_ < 0) refuse(host, port, errno);
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  getsockname(file_, reinterpret_cast<sockaddr*>(&own), &size);
  if (own.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(own);
    port_ = ntohs(six.sin6_port);
    on_loopback_ = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
  } else {
    const auto& four = reinterpret_cast<const sockaddr_in&>(own);
    port_ = ntohs(four.sin_port);
    on_loopback_ = ntohl(four.sin_addr.s_addr) >> 24 == 127;
  }
}

ListeningSocket::~ListeningSocket() { close(file_); }

}  // namespace draftproof::serve
