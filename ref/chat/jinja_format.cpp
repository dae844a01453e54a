// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "ref/base/error.h"
#include "ref/chat/jinja_printing.h"
#include "ref/chat/jinja_text.h"
#include "ref/formats/printable.h"

namespace draftproof::jinja {
namespace {

constexpr int size_max = 1000;  // of widths and precisions

/// How one value is written: the part behind the colon of braces, or behind a %.
struct FormatSpec {
  std::string fill = " ";
  char align = 0;      // < > ^, or = for the fill behind the sign
  bool zeros = false;  // numbers without another alignment get it behind the sign
  char sign = '-';
  bool alternate = false;
  int width = 0;
  char grouping = 0;
  int precision = -1;
  char type = 0;
};

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

int number_at(std::string_view text, std::size_t& at) {
  int number = 0;
  for (; at < text.size() && is_decimal(text[at]); ++at) {
    number = number * 10 + (text[at] - '0');
    if (number > size_max) throw Error("a format with a number above 1000 is not implemented");
  }
  return number;
}

[[noreturn]] void fail_type(const FormatSpec& spec, const Value& value) {
  const std::string type = spec.type != 0 ? "the format " + in_quotes(std::string(1, spec.type)) : "such a format";
  throw Error(type + " does not fit a " + value.type_name());
}

std::string in_base(std::uint64_t magnitude, int base) {
  std::array<char, 65> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), magnitude, base).ptr;
  return {digits.data(), end};
}

std::string in_upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

/// A separator after every few digits of the whole part, counted from its end.
std::string grouped(const std::string& digits, char separator, std::size_t every) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string result;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) result += separator;
    result += digits[i];
  }
  return result + digits.substr(whole);
}

std::string digits_of(double number, char type, int precision) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return "inf";
  std::array<char, 1536> text;
  const auto form = type == 'f' || type == '%' ? std::chars_format::fixed
                    : type == 'e'              ? std::chars_format::scientific
                                               : std::chars_format::general;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number, form, precision).ptr;
  return {text.data(), end};
}

/// The digits of a number without its sign.
std::string magnitude_of(const Value& value, const FormatSpec& spec, bool& negative) {
  const char type =
      spec.type >= 'A' && spec.type <= 'Z' && spec.type != 'X' ? static_cast<char>(spec.type - 'A' + 'a') : spec.type;
  const bool of_float = type != 0 && std::string_view("efg%").find(type) != std::string_view::npos;
  if (value.as<double>() == nullptr && !of_float) {
    const std::int64_t integer = integer_of(value, "a format");
    negative = integer < 0;
    const std::uint64_t magnitude =
        negative ? ~static_cast<std::uint64_t>(integer) + 1 : static_cast<std::uint64_t>(integer);
    if (spec.precision >= 0) throw Error("a precision of an integer is not allowed in a format");
    const bool hexadecimal = type == 'x' || type == 'X';
    const int base = hexadecimal ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    if (base == 10 && type != 0 && type != 'd' && type != 'n') fail_type(spec, value);
    std::string digits = in_base(magnitude, base);
    if (type == 'X') digits = in_upper_case(digits);
    if (spec.grouping != 0) digits = grouped(digits, spec.grouping, base == 10 ? 3 : 4);
    if (spec.alternate && base != 10) digits = std::string("0") + spec.type + digits;
    return digits;
  }
  if (type != 0 && !of_float) fail_type(spec, value);
  if (spec.alternate) throw Error("a format with # of a float is not implemented");
  double number = *number_of(value);
  negative = std::signbit(number) && !std::isnan(number);
  number = std::fabs(number);
  std::string digits;
  if (type == 0) {
    if (spec.precision >= 0) throw Error("a format with a precision and no type is not implemented");
    digits = shortest(number);
  } else {
    digits = digits_of(type == '%' ? number * 100 : number, type, spec.precision < 0 ? 6 : spec.precision);
  }
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping, 3);
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') digits = in_upper_case(digits);
  return type == '%' ? digits + "%" : digits;
}

MarkedText with_spec(const Value& value, const FormatSpec& spec, Budget& budget) {
  require_defined(value);
  const bool is_text = value.as<MarkedText>() != nullptr;
  if (!is_text && !number_of(value))
    throw Error(std::string("a ") + value.type_name() + " has no format but the empty one");
  MarkedText text;
  std::string sign;
  if (is_text) {
    if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.sign != '-' || spec.grouping != 0) {
      fail_type(spec, value);
    }
    text = *value.as<MarkedText>();
    budget.charge(4 * text.size());
    if (spec.precision >= 0 && length(text.bytes()) > spec.precision) {
      std::vector<std::size_t> kept(static_cast<std::size_t>(spec.precision));
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = i;
      text = characters_at(text, kept);
    }
  } else {
    bool negative = false;
    text = MarkedText(magnitude_of(value, spec, negative));
    if (negative) sign = "-";
    else if (spec.sign != '-') sign = spec.sign;
  }
  const char align = spec.align != 0 ? spec.align : is_text ? '<' : spec.zeros ? '=' : '>';
  const auto missing = spec.width - length(text.bytes()) - static_cast<std::int64_t>(sign.size());
  if (align == '=' && missing > 0) {
    if (spec.grouping != 0 && spec.fill == "0") throw Error("a format with zeros and a separator is not implemented");
    for (std::int64_t i = 0; i < missing; ++i) sign += spec.fill;
  }
  MarkedText whole(sign);
  whole.append(text);
  const Alignment alignment = align == '<' ? Alignment::left : align == '^' ? Alignment::middle : Alignment::right;
  return aligned(whole, spec.width, spec.fill, alignment, budget);
}

FormatSpec parsed_spec(std::string_view text) {
  FormatSpec spec;
  std::size_t at = 0;
  const auto is_align = [&](std::size_t place) {
    return place < text.size() && std::string_view("<>^=").find(text[place]) != std::string_view::npos;
  };
  const auto take = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  std::size_t first = 1;  // bytes of the first character
  while (first < text.size() && (text[first] & 0xC0) == 0x80) ++first;
  if (is_align(first)) {
    spec.fill = std::string(text.substr(0, first));
    at = first;
  }
  spec.align = take("<>^=");
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0) {
    spec.zeros = true;
    if (!is_align(first)) spec.fill = "0";
  }
  spec.width = number_at(text, at);
  spec.grouping = take(",_");
  if (take(".") != 0) {
    if (at == text.size() || !is_decimal(text[at])) throw Error("a format lacks its precision");
    spec.precision = number_at(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) throw Error("the format " + in_quotes(text) + " is not one of Python");
  return spec;
}

/// Reads what is between braces.
class BraceFormatter {
 public:
  BraceFormatter(const GivenArguments& given, bool safe, Rendering& rendering)
      : given_(given), safe_(safe), rendering_(rendering) {}

  MarkedText formatted(const MarkedText& format, int depth) {
    if (depth > 2) throw Error("braces of a format nest too deep");
    const std::string& bytes = format.bytes();
    MarkedText result;
    for (std::size_t at = 0; at < bytes.size();) {
      rendering_.budget.charge(16);
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      result.append(format, at, brace);
      at = brace;
      if (at == bytes.size()) break;
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        result.append(format, at, at + 1);
        at += 2;
        continue;
      }
      if (bytes[at] == '}') throw Error("a format has a } without its {");
      std::size_t end = at + 1;
      for (int open = 1; end < bytes.size(); ++end) {
        open += bytes[end] == '{' ? 1 : bytes[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (end == bytes.size()) throw Error("a format has a { without its }");
      append_field(format.part(at + 1, end), depth, result);
      at = end + 1;
    }
    return result;
  }

 private:
  void append_field(const MarkedText& field, int depth, MarkedText& result) {
    const std::string& bytes = field.bytes();
    const std::size_t colon = std::min(bytes.find(':'), bytes.size());
    const std::size_t bang = std::min(bytes.find('!'), colon);
    Value value = value_of(bytes.substr(0, bang));
    if (bang < colon) {
      const std::string conversion = bytes.substr(bang + 1, colon - bang - 1);
      if (conversion == "s") value = text_of(value, rendering_.budget);
      else if (conversion == "r") value = representation_of(value, rendering_.budget);
      else throw Error("the conversion " + in_quotes(conversion) + " of a format is not implemented");
    }
    const std::string spec =
        colon < bytes.size() ? formatted(field.part(colon + 1, bytes.size()), depth + 1).bytes() : std::string();
    if (safe_ && value.is_safe() && !spec.empty()) throw Error("a text of the filter 'safe' has no format there");
    const MarkedText text =
        spec.empty() ? text_of(value, rendering_.budget) : with_spec(value, parsed_spec(spec), rendering_.budget);
    result.append(safe_ && !value.is_safe() ? escaped(text) : text);
  }

  /// "", "0", "name", each with .attributes and [items] behind it.
  Value value_of(const std::string& name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    const std::string first = name.substr(0, at);
    Value value;
    if (first.find_first_not_of("0123456789") == std::string::npos) {
      std::size_t digits = 0;
      const auto place = first.empty() ? next_++ : static_cast<std::size_t>(number_at(first, digits));
      numbered_ = numbered_ || !first.empty();
      if (numbered_ && next_ > 0) throw Error("a format has both {} and {0}");
      if (place >= given_.positional.size()) throw Error("a format has more fields than there are arguments");
      value = given_.positional[place];
    } else {
      const auto named = std::ranges::find(given_.named, first, &std::pair<std::string, Value>::first);
      if (named == given_.named.end())
        throw Error("a format names the argument " + in_quotes(first) + ", which is missing");
      value = named->second;
    }
    while (at < name.size()) {
      const bool is_item = name[at] == '[';
      const std::size_t end = is_item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == std::string::npos || end == at + 1) throw Error("a format has a field whose name does not end");
      const std::string part = name.substr(at + 1, end - at - 1);
      const bool is_index = is_item && part.find_first_not_of("0123456789") == std::string::npos && part.size() < 10;
      value = !is_item   ? attribute_of(value, part, rendering_)
              : is_index ? item_of(value, std::int64_t{std::stol(part)}, rendering_)
                         : item_of(value, Value::text(part), rendering_);
      at = is_item ? end + 1 : end;
    }
    return value;
  }

  const GivenArguments& given_;
  bool safe_;  // whether values are escaped
  Rendering& rendering_;
  std::size_t next_ = 0;
  bool numbered_ = false;
};

/// Reads what is behind percent signs.
class PercentFormatter {
 public:
  PercentFormatter(const Value& format, const Value& arguments, Rendering& rendering)
      : format_(*format.as<MarkedText>()),
        bytes_(format_.bytes()),
        safe_(format.is_safe()),
        names_(arguments.as<Dict>()),
        budget_(rendering.budget) {
    const List* const list = arguments.as_list();
    const bool is_tuple = list != nullptr && list->kind == List::Kind::tuple;
    const bool is_range = list != nullptr && list->kind == List::Kind::range;
    const bool is_list = list != nullptr && list->kind == List::Kind::list;
    may_be_unused_ = names_ != nullptr || is_range || is_list || arguments.is_undefined();
    values_ = is_tuple ? list->items : std::vector<Value>{arguments};
  }

  MarkedText formatted() && {
    budget_.charge(bytes_.size() + 16 * values_.size());
    MarkedText result;
    while (true) {
      budget_.charge(16);
      const std::size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
      result.append(format_, at_, percent);
      if (percent == bytes_.size()) break;
      at_ = percent + 1;
      const std::optional<Value> named = named_value();
      const FormatSpec spec = read_spec();
      if (spec.type == '%') {
        if (at_ != percent + 2) throw Error("the field %% of a format has no other parts");
        result.append("%");
      } else {
        const Value value = named ? *named : next_value();
        const bool is_text = spec.type == 's' || spec.type == 'r';
        result.append(is_text ? text_field(value, spec) : number_field(value, spec));
      }
    }
    if (next_ < values_.size() && !may_be_unused_) throw Error("a format has fewer fields than there are arguments");
    return result;
  }

 private:
  bool is_at(std::string_view any) const {
    return at_ < bytes_.size() && any.find(bytes_[at_]) != std::string_view::npos;
  }

  /// Of a field with a name in parentheses.
  std::optional<Value> named_value() {
    if (!is_at("(")) return std::nullopt;
    const std::size_t end = bytes_.find(')', at_);
    if (end == std::string::npos || names_ == nullptr) throw Error("a format with names needs a dictionary");
    const Value* const found = names_->find(std::string_view(bytes_).substr(at_ + 1, end - at_ - 1));
    if (found == nullptr) throw Error("a format names a key that the dictionary lacks");
    at_ = end + 1;
    return *found;
  }

  Value next_value() {
    if (next_ == values_.size()) throw Error("a format has more fields than there are arguments");
    return values_[next_++];
  }

  /// From the flags of a field to its type.
  FormatSpec read_spec() {
    FormatSpec spec;
    for (; is_at("#0- +"); ++at_) {
      const char flag = bytes_[at_];
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.zeros = true;
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    spec.width = number_at(bytes_, at_);
    if (is_at(".")) spec.precision = number_at(bytes_, ++at_);
    if (at_ == bytes_.size()) throw Error("a format ends within a field");
    spec.type = bytes_[at_++];
    return spec;
  }

  MarkedText text_field(const Value& value, FormatSpec spec) {
    const bool is_shown = spec.type == 'r';
    MarkedText text = is_shown ? representation_of(value, budget_) : text_of(value, budget_);
    if (safe_ && (is_shown || !value.is_safe())) text = escaped(text);
    spec = {.align = spec.align != 0 ? spec.align : '>', .width = spec.width, .precision = spec.precision, .type = 's'};
    return with_spec(text, spec, budget_);
  }

  MarkedText number_field(Value value, FormatSpec spec) {
    if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos) {
      throw Error("the field %" + std::string(1, spec.type) + " of a format is not implemented");
    }
    require_defined(value);
    if (!number_of(value)) throw Error(std::string("a number is needed in a format, not a ") + value.type_name());
    if (spec.zeros && spec.align == 0) spec.fill = "0";
    if (spec.type == 'd' || spec.type == 'i' || spec.type == 'u') {
      spec.type = 'd';
      if (const auto* number = value.as<double>()) {
        if (!(std::fabs(*number) < 9e18)) throw Error("integers beyond 64 bits are not implemented");
        value = static_cast<std::int64_t>(*number);
      }
      if (spec.precision >= 0) throw Error("a precision of an integer is not implemented");
    }
    return with_spec(value, spec, budget_);
  }

  const MarkedText& format_;
  const std::string& bytes_;
  bool safe_;                   // whether values are escaped
  const Dict* names_;           // nullptr: fields have no names
  bool may_be_unused_ = false;  // to Python, what has items by keys is a mapping, of which fields name what they need
  Budget& budget_;
  std::vector<Value> values_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

std::string with_digits(double number, int digits) { return digits_of(number, 'f', digits); }

MarkedText aligned(const MarkedText& text, std::int64_t width, std::string_view fill, Alignment alignment,
                   Budget& budget) {
  const std::int64_t count = length(text.bytes());
  const std::int64_t missing = width > count ? width - count : 0;
  budget.charge(8, static_cast<std::uint64_t>(missing));
  const std::int64_t before = alignment == Alignment::left ? 0 : alignment == Alignment::right ? missing : missing / 2;
  MarkedText result;
  for (std::int64_t i = 0; i < before; ++i) result.append(fill);
  result.append(text);
  for (std::int64_t i = before; i < missing; ++i) result.append(fill);
  return result;
}

Value formatted_with_percent(const Value& format, const Value& arguments, Rendering& rendering) {
  const Value result = PercentFormatter(format, arguments, rendering).formatted();
  return format.is_safe() ? result.made_safe() : result;
}

Value formatted_with_braces(const Value& format, const GivenArguments& given, Rendering& rendering) {
  const Value result = BraceFormatter(given, format.is_safe(), rendering).formatted(*format.as<MarkedText>(), 1);
  return format.is_safe() ? result.made_safe() : result;
}

}  // namespace draftproof::jinja
