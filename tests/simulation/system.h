// SPDX-License-Identifier: MIT
// A system whose threads, clock and sockets follow a seed. Code runs in it as it is: a program that has system.cpp in
// it calls functions of its own for threads, mutexes, conditions, clocks and sockets (the names of the C library), and
// in a simulated thread these ask the simulation. One thread runs at a time. At each such call it may have to give way
// to another one, and time goes on only when the test says so. So whatever threads do is decided by the seed, and the
// same seed gives the same history. In all other threads, those of the test, the functions are the C library's.
//
// Faults that a program has to bear are part of it: calls that are interrupted, parts of what was to be sent or read,
// conditions that wake without a reason, and, where a test asks for them, no threads and no files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof::simulation {

/// What a system does wrong, for tests of the tests.
enum class Mistake { none, loses_bytes, alters_bytes, leaves_files_open, loses_signals };

/// One at a time. It is driven by the thread that made it, which is not simulated: all others stand still meanwhile.
class System {
 public:
  using Duration = std::chrono::nanoseconds;

  explicit System(std::uint64_t seed, Mistake mistake = Mistake::none);
  /// All its threads have ended.
  ~System();
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  /// Of system calls that may fail, one in so many does; 0: none.
  void set_failures(int of_threads, int of_files);

  /// Starts a thread, which runs when step() lets it.
  void spawn(std::function<void()> function);
  /// Lets one of the threads that can go on do so, to its next call. Returns false when all wait.
  bool step();
  /// Time goes on.
  void pass(Duration duration) { now_ += duration; }
  /// When the first of the threads that wait for a time at most no longer does; nullopt: none waits like that.
  std::optional<Duration> next() const;
  Duration now() const noexcept { return now_; }

  std::size_t threads() const noexcept;
  /// Files of the simulated threads that are open.
  std::size_t files() const noexcept { return files_.size(); }
  /// What has happened: a number for each call.
  const std::vector<std::uint64_t>& history() const noexcept { return history_; }

  // The other side of the network.

  struct Connection;
  using Client = std::shared_ptr<Connection>;
  /// Returns nullptr when nobody listens.
  Client connect();
  /// Returns how many bytes there was room for.
  static std::size_t send(Connection& client, std::string_view bytes);
  /// Takes at most so many bytes that have come.
  static std::string receive(Connection& client, std::size_t size);
  /// Whether nothing more will come.
  static bool ended(const Connection& client);
  /// Whether the server has lost what it had sent, because it closed a connection that it had not read.
  static bool was_reset(const Connection& client);
  static void end_writing(Connection& client);
  static void close(Connection& client);

  class Calls;  // of the simulated threads: system.cpp

 private:
  struct Thread;
  struct File;
  friend class Calls;

  std::uint64_t some(std::uint64_t below) { return random_() % below; }
  bool can_go_on(const Thread& thread) const;
  void run(Thread& thread);
  void forget(Thread& ended);
  Thread& add_thread(std::function<void()> function);

  std::mt19937_64 random_;
  Mistake mistake_;
  int thread_failures_ = 0;
  int file_failures_ = 0;
  Duration now_{};
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::pair<int, std::unique_ptr<File>>> files_;  // by number
  int opened_ = 0;
  int started_ = 0;
  std::vector<std::uint64_t> history_;
};

}  // namespace draftproof::simulation
