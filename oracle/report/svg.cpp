// SPDX-License-Identifier: MIT
#include "oracle/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "kernels/math64.h"
#include "oracle/report/markup.h"

namespace draftproof::svg {
namespace {

constexpr double digit_width = 6.5;  // of the page's font at the size of a label, and a little more

double widest(const std::vector<Tick>& ticks) {
  std::size_t max = 0;
  for (const Tick& tick : ticks) max = std::max(max, tick.label.size());
  return digit_width * static_cast<double>(max);
}

/// Labels of round numbers that fit beside each other.
std::vector<Tick> ticks_of(double from, double to, double step_min) {
  for (int max = 8;; --max) {
    std::vector<Tick> ticks;
    for (const double value : round_numbers(from, to, max, step_min)) ticks.push_back({value, short_number(value)});
    const double room = (Plot::right - Plot::left) / static_cast<double>(std::max<std::size_t>(ticks.size(), 1));
    if (widest(ticks) + digit_width <= room || max == 1) return ticks;
  }
}

}  // namespace

std::vector<double> round_numbers(double from, double to, int max, double step_min) {
  if (!std::isfinite(from) || !std::isfinite(to) || from > to || max < 1) return {};
  // Powers of ten are exact to 10^22 and written down as such; steps that small or large are all the plots need.
  for (int exponent = -9; exponent <= 18; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      double power = 1;
      for (int i = 0; i < std::abs(exponent); ++i) power *= 10;
      const auto multiple = [&](double k) { return exponent < 0 ? k * factor / power : k * factor * power; };
      if (multiple(1) < step_min) continue;
      const double first = std::ceil(exponent < 0 ? from * power / factor : from / power / factor);
      const double last = std::floor(exponent < 0 ? to * power / factor : to / power / factor);
      if (last - first + 1 > max) continue;
      std::vector<double> numbers;
      for (double k = first; k <= last; ++k) numbers.push_back(multiple(k) + 0.0);  // -0 becomes 0
      return numbers;
    }
  }
  return {};
}

std::string short_number(double value) {
  const double size = value < 0 ? -value : value;
  if (size >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e3) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

double log10_of(double value) { return log64(value) / log64(10); }

std::string power_of_ten(int exponent) {
  if (exponent == 0) return "1";
  if (exponent == 1) return "10";
  constexpr std::array<const char*, 10> raised = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = "10";
  for (const char c : fmt::to_string(exponent)) text += c == '-' ? "⁻" : raised.at(static_cast<std::size_t>(c - '0'));
  return text;
}

double Axis::share(double value) const {
  const double share = (value - from) / (to - from);
  return share > 0 ? std::min(share, 1.0) : 0;  // NaN: 0
}

Axis amounts(std::string name, double max) {
  Axis axis{std::move(name), 0, 1, {}};
  std::vector<double> numbers = round_numbers(0, std::max(max, 1.0), 6, 1);
  if (numbers.back() < max) numbers.push_back(numbers.back() + numbers[1]);
  for (const double value : numbers) axis.ticks.push_back({value, short_number(value)});
  axis.to = numbers.back();
  return axis;
}

Axis places(std::string name, int first, int last) {
  return {std::move(name), first - 0.5, last + 0.5, ticks_of(first - 0.5, last + 0.5, 1)};
}

Axis range(std::string name, double to) { return {std::move(name), 0, to, ticks_of(0, to, 1)}; }

Axis powers(std::string name, double exponent_min, double exponent_max) {
  Axis axis{std::move(name), std::floor(exponent_min), std::ceil(exponent_max), {}};
  if (axis.to <= axis.from) axis.to = axis.from + 1;
  for (const double exponent : round_numbers(axis.from, axis.to, 6, 1)) {
    axis.ticks.push_back({exponent, power_of_ten(static_cast<int>(exponent))});
  }
  return axis;
}

Plot::Plot(std::string title, std::string description, Axis x, Axis y)
    : title_(std::move(title)), description_(std::move(description)), x_(std::move(x)), y_(std::move(y)) {
  const double places = std::max(x_.to - x_.from, 1.0);
  radius_ = std::clamp(0.3 * (right - left) / places, 1.2, 3.6);
}

void Plot::bar(double from, double to, double value, const std::string& label) {
  drawn_ += fmt::format(
      "<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
      "<title>{}</title></rect>\n",
      x_of(from), y_of(value), x_of(to) - x_of(from), bottom - y_of(value), escaped(label));
}

void Plot::point(double at, double value, double low, double high, const std::string& label) {
  drawn_ += fmt::format(
      "<g class=\"point\"><title>{}</title>"
      "<path d=\"M{:.1f} {:.1f}V{:.1f}\"></path><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\">"
      "</circle></g>\n",
      escaped(label), x_of(at), y_of(low), y_of(high), x_of(at), y_of(value), radius_);
}

void Plot::line(const char* kind, const std::vector<std::pair<double, double>>& points) {
  std::string path;
  for (const auto& [x, y] : points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x_of(x), y_of(y));
  drawn_ += fmt::format("<path class=\"{}\" d=\"{}\"></path>\n", kind, path);
}

void Plot::level(double value, const std::string& label) {
  const double y = y_of(value);
  // Above the line, or below it where there is no room.
  drawn_ += fmt::format(
      "<path class=\"level\" d=\"M{:.1f} {:.1f}H{:.1f}\"></path>"
      "<text class=\"level\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      left, y, right, left + 6, y < top + 14 ? y + 14 : y - 5, escaped(label));
}

void Plot::beyond(double at, const std::string& label) {
  const double x = x_of(at);
  drawn_ += fmt::format(
      "<path class=\"beyond\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\"><title>{}</title>"
      "</path>\n",
      x, top - 6, x - 5, top + 4, x + 5, top + 4, escaped(label));
}

std::string Plot::text() const {
  std::string text = fmt::format(
      "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\">\n<title>{}</title>\n"
      "<desc>{}</desc>\n",
      width, height, escaped(title_), escaped(description_));
  for (const Tick& tick : y_.ticks) {
    const double y = y_of(tick.at);
    text += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"></path>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        left, y, right, left - 6, y + 4, escaped(tick.label));
  }
  for (const Tick& tick : x_.ticks) {
    const double x = x_of(tick.at);
    text += fmt::format(
        "<path class=\"tick\" d=\"M{:.1f} {:.1f}v4\"></path>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
        x, bottom, x, bottom + 17, x > right - 1 ? "end" : "middle", escaped(tick.label));
  }
  text += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"></path>\n", left, bottom, right);
  text += fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"12\">{}</text>\n", 0.0, escaped(y_.name));
  text += fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", right,
                      height - 5, escaped(x_.name));
  return text + drawn_ + "</svg>\n";
}

}  // namespace draftproof::svg
