// SPDX-License-Identifier: MIT
// Times several cases, interleaved: in each repeat every case runs once, so that noise on the machine disturbs all
// alike, and ratios are taken within a repeat. The limits of the machine are measured as cases, too.
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

/// Options of every subcommand of `bench`.
struct BenchOptions {
  int threads = 0;
  int repeats = 0;
  std::string json_file;
  bool quiet = false;
};

/// The work of one case, for comparison with the limits: bytes of weights or memory, multiplications of floats and of
/// bytes.
struct Work {
  double bytes = 0;
  double float_multiplications = 0;
  double byte_multiplications = 0;
  double bf16_multiplications = 0;

  double multiplications() const { return float_multiplications + byte_multiplications + bf16_multiplications; }
  /// Adds multiplications with activations of this format.
  void multiply(ActivationFormat activations, double count) {
    (activations == ActivationFormat::bf16 ? bf16_multiplications
     : is_float(activations)               ? float_multiplications
                                           : byte_multiplications) += count;
  }
};

class InterleavedTimer {
 public:
  explicit InterleavedTimer(const Roofline& limits);

  /// Adds a case that returns the seconds to count. Returns its index.
  int add(const std::string& name, std::function<double()> run);
  /// Adds a case that is timed from begin to end. Returns its index.
  int add_whole(const std::string& name, std::function<void()> run);

  /// Runs all cases: one repeat that is not counted, then those asked for, or those completed before Ctrl-C. Call it
  /// inside with_workers.
  void run(const BenchOptions& options);

  Spread seconds(int index) const { return spread_of(seconds_.at(static_cast<std::size_t>(index))); }
  Spread ratio(int index, int base) const;  // of the seconds, repeat by repeat
  int repeats() const { return static_cast<int>(seconds_.front().size()); }

  /// Returns the least seconds in which this machine could do the work.
  double seconds_min(const Work& work) const;

  /// Medians, per second.
  double bytes_read() const { return bytes_ / seconds(read_).median; }
  double floats_multiplied() const { return floats_ / seconds(multiply_floats_).median; }
  double bf16_multiplied() const { return multiplied_bf16_ / seconds(multiply_bf16_).median; }
  double bytes_multiplied() const { return multiplied_bytes_ / seconds(multiply_bytes_).median; }

  std::string limits_text() const;
  nlohmann::ordered_json limits_json() const;

  /// Returns the times of a case, and the rates at which it did its work.
  nlohmann::ordered_json rates_json(int index, const Work& work) const;

 private:
  struct Case {
    std::string name;
    std::function<double()> run;
  };
  const Roofline& roofline_;
  double bytes_ = 0;
  double floats_ = 0;
  double multiplied_bf16_ = 0;
  double multiplied_bytes_ = 0;
  int read_;
  int multiply_floats_;
  int multiply_bf16_;
  int multiply_bytes_;
  std::vector<Case> cases_;
  std::vector<std::vector<double>> seconds_;
};

/// Returns the seconds that f() takes.
template <class Function>
double timed(const Function& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// {"median", "min", "max"}, each times `factor`.
nlohmann::ordered_json spread_json(const Spread& spread, double factor = 1);

}  // namespace draftproof
