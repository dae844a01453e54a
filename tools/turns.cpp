// SPDX-License-Identifier: MIT
#include "tools/turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/interrupt.h"
#include "tools/progress.h"

namespace draftproof {

Turns::Turns(const Roofline& limits) : roofline_(limits) {
  read_ = add_whole("memory", [this] { bytes_ = roofline_.read(); });
  multiply_floats_ = add_whole("floats", [this] { floats_ = roofline_.multiply_floats(); });
  multiply_bytes_ = add_whole("bytes", [this] { multiplied_bytes_ = roofline_.multiply_bytes(); });
}

int Turns::add_whole(const std::string& name, std::function<void()> thing) {
  return add(name, [thing = std::move(thing)] { return timed(thing); });
}

int Turns::add(const std::string& name, std::function<double()> thing) {
  things_.push_back({name, std::move(thing)});
  seconds_.emplace_back();
  return static_cast<int>(things_.size()) - 1;
}

void Turns::run(const BenchOptions& options) {
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  Progress progress(options.quiet);
  for (int turn = 0; turn <= options.turns; ++turn) {
    if (turn > 1 && interrupted->load()) return;
    for (std::size_t i = 0; i < things_.size(); ++i) {
      progress.say(fmt::format("turn {} of {}: {}", turn, options.turns, things_[i].name));
      // What the probes leave in the caches is not what the work would find there.
      if (static_cast<int>(i) == multiply_bytes_ + 1) things_[i].run();
      const double taken = things_[i].run();
      if (turn > 0) seconds_[i].push_back(taken);
    }
  }
}

Spread Turns::ratio(int thing, int base) const {
  std::vector<double> ratios = seconds_.at(static_cast<std::size_t>(thing));
  const std::vector<double>& bases = seconds_.at(static_cast<std::size_t>(base));
  for (std::size_t turn = 0; turn < ratios.size(); ++turn) ratios[turn] /= bases[turn];
  return spread_of(std::move(ratios));
}

double Turns::least_seconds(const Work& work) const {
  return std::max(work.bytes / bytes_read(), work.float_multiplications / floats_multiplied() +
                                                 work.byte_multiplications / bytes_multiplied());
}

std::string Turns::limits_text() const {
  return fmt::format("limits here ({}): {:.1f} GB/s read, {:.0f} G float and {:.0f} G byte multiplications/s\n",
                     roofline_.name(), 1e-9 * bytes_read(), 1e-9 * floats_multiplied(), 1e-9 * bytes_multiplied());
}

nlohmann::ordered_json Turns::limits_json() const {
  const auto rates = [this](double work, int thing) {
    const Spread s = seconds(thing);
    return nlohmann::ordered_json{{"median", work / s.median}, {"min", work / s.most}, {"max", work / s.least}};
  };
  return {{"instructions", roofline_.name()},
          {"bytes_read_per_second", rates(bytes_, read_)},
          {"float_multiplications_per_second", rates(floats_, multiply_floats_)},
          {"byte_multiplications_per_second", rates(multiplied_bytes_, multiply_bytes_)}};
}

nlohmann::ordered_json Turns::rates_json(int thing, const Work& work) const {
  const Spread time = seconds(thing);
  return {{"milliseconds", spread_json(time, 1e3)},
          {"bytes_per_second", work.bytes / time.median},
          {"multiplications_per_second", work.multiplications() / time.median},
          {"share_of_limit", least_seconds(work) / time.median}};
}

nlohmann::ordered_json spread_json(const Spread& spread, double factor) {
  return {{"median", factor * spread.median}, {"min", factor * spread.least}, {"max", factor * spread.most}};
}

}  // namespace draftproof
