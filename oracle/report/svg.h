// SPDX-License-Identifier: MIT
// Small plots as SVG inside a page, whose style sheet gives them their colors and their font by class. Equal data give
// equal bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace draftproof::svg {

/// The multiples of the smallest step of 1, 2 or 5 times a power of ten, `least_step` or more, of which no more than
/// `most` lie in [from, to]; ascending. None where `from` > `to` or either is not finite.
std::vector<double> round_numbers(double from, double to, int most, double least_step = 0);

/// "0.4", "250", "1.5k", "20k", "3M".
std::string short_number(double value);

/// The common logarithm.
double log10_of(double value);
/// 10 to an integer: "1", "10", "10⁹", "10⁻³".
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

  /// 0 at `from`, 1 at `to`; what lies beyond, or is no number, is held at an end.
  double share(double value) const;
};

/// Counts from 0 to a round number that is `most` at least.
Axis amounts(std::string name, double most);
/// 0 to `to`, above 0.
Axis range(std::string name, double to);
/// Integers with half a place to each side of the first and the last, for points and bars.
Axis places(std::string name, int first, int last);
/// Powers of ten, by exponent.
Axis powers(std::string name, double least_exponent, double most_exponent);

/// A box with two axes, and what is drawn into it. Positions are values of the axes; `says` is shown by what has a
/// pointer and told by what reads aloud.
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

  void bar(double from, double to, double value, const std::string& says);
  void point(double at, double value, double low, double high, const std::string& says);
  void line(const char* kind, const std::vector<std::pair<double, double>>& points);
  void level(double value, const std::string& label);
  /// A head of an arrow at the upper edge: the value lies beyond.
  void beyond(double at, const std::string& says);

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
