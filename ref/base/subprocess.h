// SPDX-License-Identifier: MIT
// A process of its own for what cannot be trusted with this one: other people's libraries on other people's files. When
// it crashes or hangs, that is an Error here.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace draftproof {

class Subprocess {
 public:
  using Answer = std::function<std::string(const std::string& question)>;

  /// `begin` is called in the new process and gives what answers there; an Error that either throws is thrown here by
  /// ask. `name` begins the sentence when the process does not answer. An answer may take so long and be so large.
  Subprocess(std::string name, const std::function<Answer()>& begin, std::size_t bytes_max,
           std::chrono::seconds patience = std::chrono::seconds(60));
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  std::string ask(std::string_view question);

 private:
  [[noreturn]] void fail();

  std::string name_;
  std::size_t bytes_max_;
  std::chrono::seconds patience_;
  int socket_ = -1;
  int process_ = -1;
};

}  // namespace draftproof
