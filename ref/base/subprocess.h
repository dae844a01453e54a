// SPDX-License-Identifier: MIT
// Runs code that cannot be trusted in this process, such as third-party libraries on files of unknown origin, in a
// separate process. A crash or a hang there becomes an Error here. One that reads has no rights
// (ref/base/confinement.h): it can open no file, reach nobody, start nothing and take no more memory than its answers
// explain.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace draftproof {

class Subprocess {
 public:
  enum class Does { read, write };  // what the messages say of it
  using Handler = std::function<std::string(const std::string& request)>;

  /// `begin` is called in the new process and returns the function that answers there. A process that reads loses its
  /// rights between the two: `begin` opens files, and leaves what is in them to the answers. ask() throws an Error that
  /// either of them throws. `name` begins the message when the process does not answer. An answer may have at most
  /// `bytes_max` bytes and take at most `timeout`.
  Subprocess(std::string name, const std::function<Handler()>& begin, std::size_t bytes_max,
             std::chrono::seconds timeout = std::chrono::seconds(60), Does does = Does::read);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  std::string ask(std::string_view request);

 private:
  [[noreturn]] void fail();

  std::string name_;
  std::size_t bytes_max_;
  std::chrono::seconds timeout_;
  Does does_;
  int socket_ = -1;
  int process_ = -1;
};

/// Lets a library write the file `name` in a process that may crash there. Throws an Error that `write` throws.
void write_in_subprocess(const std::string& name, const std::function<void()>& write);

}  // namespace draftproof
