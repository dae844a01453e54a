// SPDX-License-Identifier: MIT
#include "oracle/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "tests/report/page.h"

namespace draftproof::svg::svg_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(RoundNumbers, AreStepsOfOneTwoOrFive) {
  EXPECT_THAT(round_numbers(0, 1, 6), ElementsAre(0, 0.2, 0.4, 0.6, 0.8, 1));
  EXPECT_THAT(round_numbers(0.5, 7.5, 8, 1), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(round_numbers(0.5, 32.5, 8, 1), ElementsAre(5, 10, 15, 20, 25, 30));
  EXPECT_THAT(round_numbers(0, 3, 6, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(round_numbers(0, 1e6, 6, 1), ElementsAre(0, 2e5, 4e5, 6e5, 8e5, 1e6));
  EXPECT_THAT(round_numbers(-0.5, 1.5, 8, 1), ElementsAre(0, 1));
  EXPECT_FALSE(std::signbit(round_numbers(-0.5, 1.5, 8, 1).front())) << "no -0 on an axis";
  EXPECT_THAT(round_numbers(-3, 9, 6, 1), ElementsAre(-2, 0, 2, 4, 6, 8));
  EXPECT_THAT(round_numbers(5, 5, 1), ElementsAre(5));
}

TEST(RoundNumbers, AreNoneWhereThereIsNoRange) {
  for (const auto& [from, to] : std::vector<std::pair<double, double>>{
           {1, 0}, {0, infinity}, {-infinity, 0}, {std::nan(""), 1}, {0, std::nan("")}}) {
    EXPECT_THAT(round_numbers(from, to, 6), IsEmpty()) << from << " " << to;
  }
  EXPECT_THAT(round_numbers(0, 1, 0), IsEmpty());
}

/// 1, 2 or 5 times a power of ten, nearly.
bool is_round_step(double step) {
  while (step > 9.999) step /= 10;
  while (step < 0.9999) step *= 10;
  return std::abs(step - 1) < 1e-9 || std::abs(step - 2) < 1e-9 || std::abs(step - 5) < 1e-9 ||
         std::abs(step - 10) < 1e-9;
}

TEST(RoundNumbers, AreEvenlySpacedWithinTheRangeAndAsManyAsAllowed) {
  int ranges = 0;
  for (const double from : {-1e6, -17.3, -0.5, 0.0, 0.4, 3.0, 999.0}) {
    for (const double length : {0.01, 0.7, 1.0, 3.0, 6.9, 32.0, 511.0, 1e4, 123456.0, 1e6, 1e9}) {
      for (const int max : {2, 3, 6, 8, 12}) {
        const std::vector<double> numbers = round_numbers(from, from + length, max);
        ASSERT_LE(static_cast<int>(numbers.size()), max) << from << " " << length;
        if (max > 2) {
          ASSERT_GE(static_cast<int>(numbers.size()), max / 3) << from << " " << length << " " << max;
        }
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          ASSERT_GE(numbers[i], from);
          ASSERT_LE(numbers[i], from + length);
          if (i > 0) {
            ASSERT_TRUE(is_round_step(numbers[i] - numbers[i - 1]) || length < 0.1) << numbers[i] - numbers[i - 1];
          }
        }
        ++ranges;
      }
    }
  }
  EXPECT_EQ(ranges, 7 * 11 * 5);
}

TEST(ShortNumber, FitsUnderATick) {
  const std::vector<std::pair<double, const char*>> cases = {
      {0, "0"},       {0.4, "0.4"}, {7, "7"},        {250, "250"},   {1500, "1.5k"},
      {20000, "20k"}, {1e6, "1M"},  {2.5e6, "2.5M"}, {-3000, "-3k"}, {4e9, "4G"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(short_number(value), text);
}

TEST(PowerOfTen, HasARaisedExponent) {
  const std::vector<std::pair<int, const char*>> cases = {
      {0, "1"}, {1, "10"}, {9, "10⁹"}, {271, "10²⁷¹"}, {-3, "10⁻³"}};
  for (const auto& [exponent, text] : cases) EXPECT_EQ(power_of_ten(exponent), text);
}

TEST(Log10Of, IsTheCommonLogarithm) {
  for (int exponent = -300; exponent <= 300; exponent += 25) {
    EXPECT_NEAR(log10_of(std::pow(10.0, exponent)), exponent, 1e-10);
  }
}

TEST(Axis, SharesRiseWithValuesBetweenZeroAndOne) {
  for (const Axis& axis : {amounts("a", 17), range("r", 1e6), places("p", 1, 32), powers("e", -3.2, 17.9)}) {
    double last = 0;
    for (int i = -10; i <= 110; ++i) {
      const double share = axis.share(axis.from + (axis.to - axis.from) * i / 100);
      EXPECT_GE(share, last) << axis.name;
      EXPECT_LE(share, 1) << axis.name;
      last = share;
    }
    EXPECT_EQ(axis.share(axis.from), 0);
    EXPECT_EQ(axis.share(axis.to), 1);
    EXPECT_EQ(axis.share(infinity), 1);
    EXPECT_EQ(axis.share(-infinity), 0);
    EXPECT_EQ(axis.share(std::nan("")), 0);
    for (const Tick& tick : axis.ticks) {
      EXPECT_GE(tick.at, axis.from);
      EXPECT_LE(tick.at, axis.to);
    }
  }
}

TEST(Axis, ContainsItsValues) {
  for (double max = 0; max < 1e7; max = max * 1.37 + 1) {
    const Axis counts = amounts("a", std::floor(max));
    EXPECT_GE(counts.to, std::floor(max));
    EXPECT_LE(counts.to, 2 * max + 1) << "mostly empty";
    EXPECT_EQ(counts.ticks.back().at, counts.to) << "the top has a number";
    EXPECT_GE(counts.ticks.size(), 2U);
    EXPECT_GE(powers("e", 0, max).to, max);
  }
}

/// Two labels of the abscissa never touch: digits of the page's fonts are at most seven units wide at their size.
TEST(Axis, LabelsDoNotOverlap) {
  const auto expect_apart = [](const Axis& axis) {
    const Plot plot("", "", axis, amounts("y", 1));
    ASSERT_GE(axis.ticks.size(), 1U) << axis.name << " " << axis.to;
    for (std::size_t i = 1; i < axis.ticks.size(); ++i) {
      const double wide = 3.5 * static_cast<double>(axis.ticks[i - 1].label.size() + axis.ticks[i].label.size());
      EXPECT_GT(plot.x_of(axis.ticks[i].at) - plot.x_of(axis.ticks[i - 1].at), wide) << axis.name << " " << axis.to;
    }
  };
  for (int depths = 1; depths <= 600; ++depths) {
    expect_apart(places("depth", 1, depths));
    expect_apart(places("length", 0, depths));
  }
  for (double tokens = 1; tokens < 1e8; tokens = std::floor(tokens * 1.11) + 1) expect_apart(range("tokens", tokens));
}

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  const std::regex number("-?[0-9]+(\\.[0-9]+)?");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), number); it != std::sregex_iterator(); ++it) {
    numbers.push_back(std::stod(it->str()));
  }
  return numbers;
}

TEST(Plot, DrawsEverythingInsideItsBox) {
  for (const double odd : {0.3, -7.0, 12.0, infinity, -infinity, std::nan("")}) {
    Plot plot("a < b", "\"quoted\"", places("place", 1, 7), {"share", 0, 1, {}});
    plot.point(odd, odd, odd, odd, "a point");
    plot.bar(odd, odd, odd, "a bar");
    plot.line("expected", {{odd, odd}, {3, 0.5}, {odd, 0.1}});
    plot.level(odd, "a level");
    plot.beyond(odd, "beyond");
    const std::string text = plot.text();
    const test::Page page("<!DOCTYPE html>\n" + text);
    EXPECT_EQ(page.fault, "");
    for (const test::Element& element : page.elements) {
      for (const char* name : {"x", "cx"}) {
        for (const double x : numbers_in(element.attribute(name))) {
          EXPECT_GE(x, 0);
          EXPECT_LE(x, Plot::width);
        }
      }
      for (const char* name : {"y", "cy"}) {
        for (const double y : numbers_in(element.attribute(name))) {
          EXPECT_GE(y, 0);
          EXPECT_LE(y, Plot::height);
        }
      }
      if (element.attribute("class") != "expected") continue;
      const std::vector<double> path = numbers_in(element.attribute("d"));
      ASSERT_EQ(path.size(), 6U);
      for (std::size_t i = 0; i < path.size(); i += 2) {
        EXPECT_GE(path[i], Plot::left);
        EXPECT_LE(path[i], Plot::right);
        EXPECT_GE(path[i + 1], Plot::top);
        EXPECT_LE(path[i + 1], Plot::bottom);
      }
    }
  }
}

TEST(Plot, HigherValuesAreHigherAndLaterOnesAreFurtherRight) {
  const Plot plot("", "", range("tokens", 1000), powers("e", 0, 9));
  for (int i = 1; i <= 100; ++i) {
    EXPECT_GT(plot.x_of(10 * i), plot.x_of(10 * (i - 1)));
    EXPECT_LT(plot.y_of(0.09 * i), plot.y_of(0.09 * (i - 1)));
  }
  EXPECT_EQ(plot.x_of(0), Plot::left);
  EXPECT_EQ(plot.x_of(1000), Plot::right);
  EXPECT_EQ(plot.y_of(0), Plot::bottom);
  EXPECT_EQ(plot.y_of(9), Plot::top);
}

TEST(Plot, HasATitleAndADescriptionFirst) {
  const test::Page page("<!DOCTYPE html>\n" + Plot("what <it> is", "more", places("x", 1, 2), amounts("y", 3)).text());
  ASSERT_GE(page.elements.size(), 3U);
  EXPECT_EQ(page.elements[0].attribute("role"), "img");
  EXPECT_EQ(page.elements[1].name, "title");
  EXPECT_EQ(page.elements[2].name, "desc");
  EXPECT_THAT(page.text, testing::HasSubstr("what <it> is"));
}

}  // namespace
}  // namespace draftproof::svg::svg_test
