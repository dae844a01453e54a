// SPDX-License-Identifier: MIT
#include "ref/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <bitset>
#include <limits>
#include <new>
#include <optional>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/base/utf8.h"
#include "ref/text/newer_characters.h"
#include "ref/text/pattern_syntax.h"

namespace draftproof {
namespace {

constexpr std::size_t expression_bytes_max = std::size_t{1} << 15;
constexpr std::size_t jit_stack_bytes_min = std::size_t{1} << 15;
constexpr std::size_t jit_stack_bytes_max = std::size_t{1} << 23;
constexpr std::uint32_t heap_kibibytes_max = std::uint32_t{1} << 17;

// Each match has `first_limit` free steps (so a text of n bytes costs O(n) of them). A match that needs more is
// repeated with `limit_growth` times as many steps, which are charged to the budget.
constexpr std::uint32_t first_limit = 1000;
constexpr std::uint32_t limit_growth = 16;
constexpr std::uint64_t budget_base = std::uint64_t{1} << 26;
constexpr std::uint64_t budget_per_byte = 256;

template <auto release>
struct Releaser {
  template <typename Handle>
  void operator()(Handle* handle) const {
    release(handle);
  }
};
template <typename Handle, auto release>
using Held = std::unique_ptr<Handle, Releaser<release>>;

template <typename Handle>
Handle* allocated(Handle* handle) {
  if (handle == nullptr) throw std::bad_alloc();
  return handle;
}

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// Returns the bytes that a match can begin with, as far as PCRE2 knows.
std::bitset<256> first_bytes_of(const pcre2_code& code) {
  const std::uint8_t* known = nullptr;
  pcre2_pattern_info(&code, PCRE2_INFO_FIRSTBITMAP, &known);
  std::bitset<256> bytes;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    bytes[byte] = known == nullptr || (known[byte / 8] >> byte % 8 & 1) != 0;
  }
  return bytes;
}

}  // namespace

struct MatchBudget::Workspace {
  Held<pcre2_match_data, pcre2_match_data_free> data{allocated(pcre2_match_data_create(1, nullptr))};
  Held<pcre2_match_context, pcre2_match_context_free> context{allocated(pcre2_match_context_create(nullptr))};
  Held<pcre2_jit_stack, pcre2_jit_stack_free> stack{
      pcre2_jit_stack_create(jit_stack_bytes_min, jit_stack_bytes_max, nullptr)};  // null where PCRE2 has no JIT
};

MatchBudget::MatchBudget(std::size_t text_bytes) : steps_left_(budget_base + budget_per_byte * text_bytes) {}

MatchBudget::~MatchBudget() = default;

MatchBudget::Workspace& MatchBudget::workspace() {
  if (!workspace_) {
    workspace_ = std::make_unique<Workspace>();
    pcre2_set_heap_limit(workspace_->context.get(), heap_kibibytes_max);
    if (workspace_->stack) pcre2_jit_stack_assign(workspace_->context.get(), nullptr, workspace_->stack.get());
  }
  return *workspace_;
}

struct Pattern::Compiled {
  Held<pcre2_code, pcre2_code_free> code;
  std::string origin;
  std::bitset<256> first_bytes;  // a match begins with one of these
  bool with_older = false;       // newer characters are matched by older ones in their place

  /// Finds the next match in `text` at or after `start`; returns false when there is none.
  bool find(std::string_view text, std::size_t start, MatchBudget& budget, std::size_t& begin, std::size_t& end) const;
};

bool Pattern::Compiled::find(std::string_view text, std::size_t start, MatchBudget& budget, std::size_t& begin,
                             std::size_t& end) const {
  while (start < text.size() && !first_bytes.test(static_cast<unsigned char>(text[start]))) ++start;
  if (start == text.size()) return false;  // a match is not empty
  MatchBudget::Workspace& workspace = budget.workspace();
  int status = PCRE2_ERROR_MATCHLIMIT;
  for (std::uint64_t limit = first_limit; status == PCRE2_ERROR_MATCHLIMIT; limit *= limit_growth) {
    if (limit > first_limit) {
      if (limit > budget.steps_left_ || limit > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(origin +
                    ": the expression backtracks too much on the text to encode; take a tokenizer whose "
                    "expression does not");
      }
      budget.steps_left_ -= limit;
    }
    pcre2_set_match_limit(workspace.context.get(), static_cast<std::uint32_t>(limit));
    status = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                         PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, workspace.data.get(), workspace.context.get());
  }
  if (status == PCRE2_ERROR_NOMATCH) return false;
  // Status 0: more groups matched than `data` has room for; only the whole match is needed.
  if (status < 0) throw Error(origin + ": the expression fails on the text to encode: " + pcre2_message(status));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(workspace.data.get());
  begin = offsets[0];
  end = offsets[1];
  REQUIRE(begin >= start && end > begin && end <= text.size(), "a match lies in the text and is not empty");
  return true;
}

Pattern::Pattern(const std::string& expression, const std::string& origin) : compiled_(std::make_unique<Compiled>()) {
  if (expression.size() > expression_bytes_max) throw Error(origin + ": the expression is longer than 32 KiB");
  if (!utf8::is_valid(expression)) throw Error(origin + ": the expression is not UTF-8");
  const std::string translated = translate_pattern(expression, origin);
  const Held<pcre2_compile_context, pcre2_compile_context_free> context{
      allocated(pcre2_compile_context_create(nullptr))};
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // what '.' does not match
  int status = 0;
  PCRE2_SIZE offset = 0;
  compiled_->origin = origin;
  compiled_->with_older = !names_replaced_characters(translated);
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &status, &offset,
                                      context.get()));
  if (!compiled_->code) throw Error(origin + ": the expression does not compile: " + pcre2_message(status));
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) throw Error(origin + ": the expression can match an empty text, which is not implemented");
  compiled_->first_bytes = first_bytes_of(*compiled_->code);
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);  // if this fails, the interpreter is used
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

void Pattern::split(std::string_view text, MatchBudget& budget, std::vector<PatternPart>& parts) const {
  const auto older = compiled_->with_older ? with_older_characters(text) : std::nullopt;
  const std::string_view matched = older ? *older : text;
  std::size_t done = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  while (done < text.size() && compiled_->find(matched, done, budget, begin, end)) {
    if (begin > done) parts.push_back({text.substr(done, begin - done), false});
    parts.push_back({text.substr(begin, end - begin), true});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), false});
}

std::string quote_for_pattern(std::string_view text) {
  std::string quoted;
  for (const char character : text) {
    const bool word = static_cast<unsigned char>(character) >= 0x80 || (character >= '0' && character <= '9') ||
                      (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z') ||
                      static_cast<unsigned char>(character) < 0x20 || character == 0x7F;
    if (!word) quoted += '\\';
    quoted += character;
  }
  return quoted;
}

}  // namespace draftproof
