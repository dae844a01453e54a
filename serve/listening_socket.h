// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace draftproof::serve {

/// A socket that takes connections at an address of this machine.
class ListeningSocket {
 public:
  /// `port` 0: any that is free. Throws Error, which says whether the host or the port is wrong.
  ListeningSocket(const std::string& host, int port);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int file() const noexcept { return file_; }
  int port() const noexcept { return port_; }
  /// Whether this machine alone can reach it.
  bool on_loopback() const noexcept { return on_loopback_; }

 private:
  int file_ = -1;
  int port_ = 0;
  bool on_loopback_ = false;
};

}  // namespace draftproof::serve
