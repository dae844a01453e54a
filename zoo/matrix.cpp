// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "zoo/zoo.h"

namespace draftproof::zoo {

const char* name_of(Harm harm) noexcept {
  switch (harm) {
    case Harm::lossy: return "lossy";
    case Harm::latent: return "latent";
    case Harm::counts: return "counts";
    case Harm::speed: return "speed";
    case Harm::none: return "right";
  }
  return "lossy";
}

bool as_it_must_be(const Mutant& mutant, const Findings& findings) {
  if (mutant.harm != Harm::none) {
    return !mutant.caught_by.empty() &&
           std::all_of(mutant.caught_by.begin(), mutant.caught_by.end(), [&](std::string_view check) {
             return findings.at(std::string(check)).outcome == Outcome::fail;
           });
  }
  return std::all_of(findings.begin(), findings.end(),
                     [](const auto& entry) { return entry.second.outcome == Outcome::pass; });
}

std::string matrix_text(std::span<const Row> rows) {
  constexpr std::size_t name_width = 30;
  std::string text = "# Which check flags which decoder: X flagged, . found nothing, - had nothing to look at.\n";
  text += fmt::format("{:<{}}  {:<6}", "", name_width, "harm");
  for (const std::string& check : check_names()) text += "  " + check;
  text += "\n";
  for (const auto& [mutant, findings] : rows) {
    text += fmt::format("{:<{}}  {:<6}", fmt::format("{:<5} {}", mutant->id, mutant->name), name_width,
                        name_of(mutant->harm));
    for (const std::string& check : check_names()) {
      const Outcome outcome = findings.at(check).outcome;
      const char mark = outcome == Outcome::fail ? 'X' : outcome == Outcome::pass ? '.' : '-';
      text += fmt::format("  {:<{}}", mark, check.size());
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  text += "\n# The line each breaks (zoo/zoo.h), where it was found, and how it is wrong or why it is right.\n";
  for (const auto& [mutant, findings] : rows) {
    text += fmt::format("{:<5} {:<3} {:<37} {}\n", mutant->id, mutant->line, mutant->thread, mutant->cause);
  }
  return text;
}

}  // namespace draftproof::zoo
