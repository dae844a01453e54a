// SPDX-License-Identifier: MIT
// Letters between ranks, for work that is dealt out: each goes from one rank to one other. Those of one rank to another
// arrive in their order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace draftproof {

class Mail {
 public:
  Mail() = default;
  virtual ~Mail() = default;
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  virtual int rank() const noexcept = 0;
  virtual int count() const noexcept = 0;

  virtual void send(int to, std::span<const std::byte> bytes) = 0;

  struct Letter {
    int from;
    std::vector<std::byte> bytes;
  };
  /// Returns a letter that has come; nullopt: none has.
  virtual std::optional<Letter> receive() = 0;
};

}  // namespace draftproof
