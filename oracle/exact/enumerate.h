// SPDX-License-Identifier: MIT
// Chance with every answer in turn. A program that takes its random answers from here is run once per path, depth
// first; the probabilities of the paths are exact and sum to 1, so collecting them per outcome gives the exact law of
// the program, whatever the program is:
//
//   EnumeratedSource chance;
//   do {
//     chance.begin_path();
//     law[program(chance)] += chance.probability();
//   } while (chance.next_path());
//
// A key is one number u, uniform in [0, 1), and different keys are independent. pick cuts [0, 1) into cells as wide as
// the weights, in their order, and answers with the cell u lies in. Asked again with the same key, by whatever part of
// the program and with whatever weights, it answers from what is still possible for u. That is why a key used twice
// where two numbers are needed changes the law and shows.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstddef>
#include <span>
#include <vector>

#include "ref/acceptance/random_source.h"

namespace draftproof {

using Rational = boost::multiprecision::cpp_rational;

class EnumeratedSource final : public RandomSource {
 public:
  /// Before each run of the program.
  void begin_path() noexcept { depth_ = 0; }

  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;

  /// Of the path so far.
  Rational probability() const;

  /// After a run: moves on to the next path; false when that was the last. The program must ask the same questions
  /// when it gets the same answers.
  bool next_path();

  /// Questions answered on this path.
  std::size_t depth() const noexcept { return depth_; }

  /// Questions that the path, when it begins, is bound to ask as the last one did.
  std::size_t bound() const noexcept { return choices_.size(); }

 private:
  /// A place where weights of some question are cut: `of` of `all`. Compared without a Rational, of which there would
  /// be two for every weight.
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
    std::uint64_t sum;        // of the weights, to notice a program that does not repeat itself
    std::vector<Cell> cells;  // the possible ones, already cut to what the key's earlier answers left of u
    std::size_t taken;
    Rational given;  // probability of the path before this choice, per unit of u
    const Cell& cell() const { return cells[taken]; }
  };
  Choice question(const Key& key, std::span<const std::uint64_t> weights, std::uint64_t sum) const;

  std::vector<Choice> choices_;
  std::size_t depth_ = 0;  // choices made on this path; the rest of choices_ is what the last path still needs
};

}  // namespace draftproof
