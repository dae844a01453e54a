// SPDX-License-Identifier: MIT
// A random source that enumerates every draw. A program that takes its random draws from here is run once per path,
// depth first. The probabilities of the paths are exact and sum to 1, so collecting them per outcome gives the exact
// distribution of the program, whatever the program is:
//
//   EnumeratedSource random;
//   do {
//     random.begin_path();
//     distribution[program(random)] += random.probability();
//   } while (random.next_path());
//
// A key is one number u, uniform in [0, 1), and different keys are independent. sample_index divides [0, 1) into cells
// as wide as the weights, in their order, and returns the cell that u lies in. When the same key is used again, by any
// part of the program and with any weights, it chooses among what is still possible for u. That is why a key used twice
// where two numbers are needed changes the distribution and is seen.
#pragma once

#include <boost/multiprecision/gmp.hpp>
#include <cstddef>
#include <span>
#include <vector>

#include "ref/acceptance/random_source.h"

namespace draftproof {

using Rational = boost::multiprecision::mpq_rational;

class EnumeratedSource final : public RandomSource {
 public:
  /// Must be called before each run of the program.
  void begin_path() noexcept { depth_ = 0; }

  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;

  /// Returns the probability of the path so far.
  Rational probability() const;

  /// Moves on to the next path after a run; returns false when that was the last. The program must make the same draws
  /// when it gets the same results.
  bool next_path();

  /// Draws made on this path.
  std::size_t depth() const noexcept { return depth_; }

  /// At the beginning of a path: the draws that it must make as the last path did.
  std::size_t bound() const noexcept { return choices_.size(); }

 private:
  /// A boundary between the cells of a draw, at `of` / `all`. Compared without a Rational, because every weight would
  /// need two.
  struct Cut {
    std::uint64_t of;
    std::uint64_t all;
    friend bool operator<(const Cut& a, const Cut& b) {
      return static_cast<unsigned __int128>(a.of) * b.all < static_cast<unsigned __int128>(b.of) * a.all;
    }
  };
  struct Cell {
    std::size_t index;
    Cut low;  // u lies in [low, high)
    Cut high;
    Rational width() const;
  };
  struct Choice {
    Key key;
    std::uint64_t sum;        // of the weights: finds a program that does not repeat itself
    std::vector<Cell> cells;  // the possible ones, cut to the range that the key's earlier draws leave for u
    std::size_t taken;
    Rational given;  // probability of the path before this choice, per unit of u
    const Cell& cell() const { return cells[taken]; }
  };
  Choice new_choice(const Key& key, std::span<const std::uint64_t> weights, std::uint64_t sum) const;

  std::vector<Choice> choices_;
  std::size_t depth_ = 0;  // choices made on this path; the later ones in choices_ are those of the last path
};

}  // namespace draftproof
