// SPDX-License-Identifier: MIT
// Things that are timed by turns: in a turn each runs once, so that a noisy machine disturbs all alike; ratios are
// taken turn by turn. The limits of the machine are among the things.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/roofline/roofline.h"
#include "kernels/threads.h"
#include "oracle/report/report.h"

namespace draftproof {

/// Flags of every subcommand of `bench`.
struct BenchOptions {
  int threads = 0;
  int repeats = 0;
  std::string json_file;
  bool quiet = false;
};

/// Work that one thing does, for the limits: bytes of weights or memory, multiplications of floats and of bytes.
struct Work {
  double bytes = 0;
  double float_multiplications = 0;
  double byte_multiplications = 0;

  double multiplications() const { return float_multiplications + byte_multiplications; }
};

class InterleavedTimer {
 public:
  explicit InterleavedTimer(const Roofline& limits);

  /// Index of the thing, which gives the seconds that count.
  int add(const std::string& name, std::function<double()> item);
  /// The same, timed from begin to end.
  int add_whole(const std::string& name, std::function<void()> item);

  /// One turn that is not counted, then as many as asked for, or as there are before Ctrl-C. Inside with_workers.
  void run(const BenchOptions& options);

  Spread seconds(int item) const { return spread_of(seconds_.at(static_cast<std::size_t>(item))); }
  Spread ratio(int item, int base) const;  // of the seconds
  int repeats() const { return static_cast<int>(seconds_.front().size()); }

  /// The least seconds in which this machine could do the work; and which of the limits that is.
  double least_seconds(const Work& work) const;

  /// Medians, per second.
  double bytes_read() const { return bytes_ / seconds(read_).median; }
  double floats_multiplied() const { return floats_ / seconds(multiply_floats_).median; }
  double bytes_multiplied() const { return multiplied_bytes_ / seconds(multiply_bytes_).median; }

  std::string limits_text() const;
  nlohmann::ordered_json limits_json() const;

  /// A thing's times, and what they make of its work.
  nlohmann::ordered_json rates_json(int item, const Work& work) const;

 private:
  struct Case {
    std::string name;
    std::function<double()> run;
  };
  const Roofline& roofline_;
  double bytes_ = 0;
  double floats_ = 0;
  double multiplied_bytes_ = 0;
  int read_;
  int multiply_floats_;
  int multiply_bytes_;
  std::vector<Case> cases_;
  std::vector<std::vector<double>> seconds_;
};

/// Seconds of f().
template <class Function>
double timed(const Function& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// {"median", "min", "max"}, each times `factor`.
nlohmann::ordered_json spread_json(const Spread& spread, double factor = 1);

}  // namespace draftproof
