// SPDX-License-Identifier: MIT
// What a draft is called on the command line and in files: one stage or several, joined by '+', which are asked in this
// order.
//
//   KIND[:PATH][?option=value[,option=value...]]
//
//   dflash:models/draft
//   ngram-simple?n=3
//   suffix+ngram-mod?n=12+dflash:models/draft
//
// A '+' is part of a path unless the name of a kind follows it; a '?' is part of it unless options follow it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

struct DraftKind;

/// What a kind can be given: a number, or one of a few words.
struct DraftOption {
  const char* name;
  double default_value;  // when it is not given
  double min;
  double max;
  const char* summary;
  bool integer = true;
  std::span<const char* const> words = {};  // one of these, and no number
};

/// An option that is one of these words.
constexpr DraftOption word_option(const char* name, std::span<const char* const> words, const char* summary) {
  return {name, 0, 0, 0, summary, true, words};
}

/// One kind with its path and its options.
struct DraftStage {
  const DraftKind* kind = nullptr;
  std::filesystem::path path = {};           // empty when there is none
  std::map<std::string, std::string> given;  // options, as they were written

  /// The value of one of the kind's options.
  double option(std::string_view name) const;
  int integer(std::string_view name) const { return static_cast<int>(option(name)); }
  /// Whether its kind has the option.
  bool takes(std::string_view name) const;
  /// The word that one of the kind's options was given; nullopt when it was not.
  std::optional<std::string> word(std::string_view name) const;

  /// Whether it proposes trees, and not only chains: by its kind or by an option "tree".
  bool trees() const;
  /// Whether it pays for draft tokens one by one and stops where it is not sure: by the option "min_prob".
  bool ends_early() const;

  /// Its name, with another path.
  std::string name_with(const std::filesystem::path& other) const;
};

struct DraftSpec {
  std::vector<DraftStage> stages;  // at least one

  /// Whether it is "none".
  bool none() const;
  /// Whether a stage does.
  bool trees() const;
  bool ends_early() const;
  /// The files that it reads.
  std::vector<std::string> paths() const;
  /// Its name, with the paths that `place` returns for its own.
  template <class Place>
  std::string name_with_paths(const Place& place) const {
    std::string name;
    for (const DraftStage& stage : stages) {
      const std::filesystem::path path = stage.path.empty() ? stage.path : std::filesystem::path(place(stage.path));
      name += (name.empty() ? "" : "+") + stage.name_with(path);
    }
    return name;
  }
};

/// Throws Error, saying what there is, when a kind or an option is unknown, a path is missing or not wanted, a value is
/// out of its range, or the stages cannot be joined.
DraftSpec parse_draft_spec(const std::string& name);

/// Throws Error when the named draft proposes trees; `what` holds chains only.
void require_chains(const std::string& name, const std::string& what);

}  // namespace draftproof
