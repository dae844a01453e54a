// SPDX-License-Identifier: MIT
// Small plots as SVG inside a page, whose style sheet sets colors and font by class. Equal data give equal bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace draftproof::svg {

/// Returns the multiples in [from, to], ascending, of the smallest step that gives `max` of them at most. The step is
/// 1, 2 or 5 times a power of ten and at least `step_min`. Returns none where `from` > `to` or either is not finite.
std::vector<double> round_numbers(double from, double to, int max, double step_min = 0);

/// "0.4", "250", "1.5k", "20k", "3M".
std::string short_number(double value);

/// Returns the common logarithm.
double log10_of(double value);
/// Returns 10 to an integer: "1", "10", "10⁹", "10⁻³".
std::string power_of_ten(int exponent);

struct Tick {
  double at;
  std::string label;
};

struct Axis {
  std::string name;
  double from = 0;
  double to = 1;  // above `from`
  std::vector<Tick> ticks;

  /// Returns 0 at `from`, 1 at `to`; values outside, and NaN, give the nearer end, NaN 0.
  double share(double value) const;
};

/// An axis of counts from 0 to a round number of at least `max`.
Axis amounts(std::string name, double max);
/// An axis from 0 to `to`, which must be above 0.
Axis range(std::string name, double to);
/// An axis of integers with half a place to each side of the first and the last, for points and bars.
Axis places(std::string name, int first, int last);
/// An axis of powers of ten, by exponent.
Axis powers(std::string name, double exponent_min, double exponent_max);

/// A plot with two axes. Positions are values of the axes; `label` is shown as a tooltip and read by screen readers.
class Plot {
 public:
  static constexpr double width = 380;
  static constexpr double height = 232;
  static constexpr double left = 46;
  static constexpr double right = width - 12;
  static constexpr double top = 26;
  static constexpr double bottom = height - 40;

  Plot(std::string title, std::string description, Axis x, Axis y);

  double x_of(double value) const { return left + (right - left) * x_.share(value); }
  double y_of(double value) const { return bottom - (bottom - top) * y_.share(value); }

  void bar(double from, double to, double value, const std::string& label);
  void point(double at, double value, double low, double high, const std::string& label);
  void line(const char* kind, const std::vector<std::pair<double, double>>& points);
  void level(double value, const std::string& label);
  /// Draws an arrow head at the upper edge: the value lies beyond it.
  void beyond(double at, const std::string& label);

  std::string text() const;

 private:
  std::string title_;
  std::string description_;
  Axis x_;
  Axis y_;
  std::string drawn_;
  double radius_;
};

}  // namespace draftproof::svg
