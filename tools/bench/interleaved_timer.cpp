// SPDX-License-Identifier: MIT
#include "tools/bench/interleaved_timer.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/interrupt.h"
#include "tools/progress.h"

namespace draftproof {

InterleavedTimer::InterleavedTimer(const Roofline& limits) : roofline_(limits) {
  read_ = add_whole("memory", [this] { bytes_ = roofline_.read(); });
  multiply_floats_ = add_whole("floats", [this] { floats_ = roofline_.multiply_floats(); });
  multiply_bf16_ = add_whole("bf16", [this] { multiplied_bf16_ = roofline_.multiply_bf16(); });
  multiply_bytes_ = add_whole("bytes", [this] { multiplied_bytes_ = roofline_.multiply_bytes(); });
}

int InterleavedTimer::add_whole(const std::string& name, std::function<void()> run) {
  return add(name, [run = std::move(run)] { return timed(run); });
}

int InterleavedTimer::add(const std::string& name, std::function<double()> run) {
  cases_.push_back({name, std::move(run)});
  seconds_.emplace_back();
  return static_cast<int>(cases_.size()) - 1;
}

void InterleavedTimer::run(const BenchOptions& options) {
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  Progress progress(options.quiet);
  for (int repeat = 0; repeat <= options.repeats; ++repeat) {
    if (repeat > 1 && interrupted->load()) return;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      progress.show(fmt::format("repeat {} of {}: {}", repeat, options.repeats, cases_[i].name));
      // The probes of the limits replace what the first case would find in the CPU caches, so it runs once unmeasured.
      if (static_cast<int>(i) == multiply_bytes_ + 1) cases_[i].run();
      const double taken = cases_[i].run();
      if (repeat > 0) seconds_[i].push_back(taken);
    }
  }
}

Spread InterleavedTimer::ratio(int index, int base) const {
  std::vector<double> ratios = seconds_.at(static_cast<std::size_t>(index));
  const std::vector<double>& bases = seconds_.at(static_cast<std::size_t>(base));
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= bases[i];
  return spread_of(std::move(ratios));
}

double InterleavedTimer::seconds_min(const Work& work) const {
  return std::max(work.bytes / bytes_read(), work.float_multiplications / floats_multiplied() +
                                                 work.bf16_multiplications / bf16_multiplied() +
                                                 work.byte_multiplications / bytes_multiplied());
}

std::string InterleavedTimer::limits_text() const {
  return fmt::format(
      "limits here ({}): {:.1f} GB/s read, {:.0f} G float, {:.0f} G bf16 and {:.0f} G byte multiplications/s\n",
      roofline_.name(), 1e-9 * bytes_read(), 1e-9 * floats_multiplied(), 1e-9 * bf16_multiplied(),
      1e-9 * bytes_multiplied());
}

nlohmann::ordered_json InterleavedTimer::limits_json() const {
  const auto rates = [this](double work, int index) {
    const Spread s = seconds(index);
    return nlohmann::ordered_json{{"median", work / s.median}, {"min", work / s.max}, {"max", work / s.min}};
  };
  return {{"instructions", roofline_.name()},
          {"bytes_read_per_second", rates(bytes_, read_)},
          {"float_multiplications_per_second", rates(floats_, multiply_floats_)},
          {"bf16_multiplications_per_second", rates(multiplied_bf16_, multiply_bf16_)},
          {"byte_multiplications_per_second", rates(multiplied_bytes_, multiply_bytes_)}};
}

nlohmann::ordered_json InterleavedTimer::rates_json(int index, const Work& work) const {
  const Spread time = seconds(index);
  return {{"milliseconds", spread_json(time, 1e3)},
          {"bytes_per_second", work.bytes / time.median},
          {"multiplications_per_second", work.multiplications() / time.median},
          {"share_of_limit", seconds_min(work) / time.median}};
}

nlohmann::ordered_json spread_json(const Spread& spread, double factor) {
  return {{"median", factor * spread.median}, {"min", factor * spread.min}, {"max", factor * spread.max}};
}

}  // namespace draftproof
