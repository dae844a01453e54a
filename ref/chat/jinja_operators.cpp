// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ref/base/error.h"
#include "ref/chat/jinja_format.h"
#include "ref/chat/jinja_text.h"

namespace draftproof::jinja {
namespace {

std::optional<std::int64_t> integer_in(const Value& value) {
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* boolean = value.as<bool>()) return *boolean ? 1 : 0;
  return std::nullopt;
}

std::optional<double> number_in(const Value& value) {
  if (const auto* number = value.as<double>()) return *number;
  if (const auto integer = integer_in(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

[[noreturn]] void fail_types(const char* sign, const Value& left, const Value& right) {
  throw Error(std::string("a ") + left.type_name() + " and a " + right.type_name() + " have no operator " + sign);
}

[[noreturn]] void fail_size() { throw Error("integers beyond 64 bits are not implemented"); }

const char* shown(BinaryOperator sign) {
  switch (sign) {
    case BinaryOperator::add: return "+";
    case BinaryOperator::subtract: return "-";
    case BinaryOperator::multiply: return "*";
    case BinaryOperator::divide: return "/";
    case BinaryOperator::divide_down: return "//";
    case BinaryOperator::modulo: return "%";
    case BinaryOperator::power: return "**";
    case BinaryOperator::both: return "and";
    case BinaryOperator::either: return "or";
  }
  return "";
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) throw Error("** with a negative exponent is not implemented");
  std::int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) fail_size();
  }
  return result;
}

/// Division that rounds down, and the remainder with the sign of the divisor.
std::int64_t divided(std::int64_t left, std::int64_t right, bool remainder) {
  if (right == 0) throw Error("division by zero");
  if (right == -1) {
    if (remainder) return 0;
    if (__builtin_mul_overflow(left, right, &left)) fail_size();
    return left;
  }
  const bool down = left % right != 0 && (left < 0) != (right < 0);
  return remainder ? left % right + (down ? right : 0) : left / right - (down ? 1 : 0);
}

Value of_integers(BinaryOperator sign, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (sign) {
    case BinaryOperator::add:
      if (__builtin_add_overflow(left, right, &result)) fail_size();
      return result;
    case BinaryOperator::subtract:
      if (__builtin_sub_overflow(left, right, &result)) fail_size();
      return result;
    case BinaryOperator::multiply:
      if (__builtin_mul_overflow(left, right, &result)) fail_size();
      return result;
    case BinaryOperator::divide_down: return divided(left, right, false);
    case BinaryOperator::modulo: return divided(left, right, true);
    case BinaryOperator::power: return power(left, right);
    default: break;
  }
  if (right == 0) throw Error("division by zero");
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (std::max(left, right) > exact || std::min(left, right) < -exact) {
    throw Error("division of integers beyond 2^53 is not implemented");
  }
  return static_cast<double>(left) / static_cast<double>(right);
}

Value of_numbers(BinaryOperator sign, double left, double right) {
  switch (sign) {
    case BinaryOperator::add: return left + right;
    case BinaryOperator::subtract: return left - right;
    case BinaryOperator::multiply: return left * right;
    case BinaryOperator::power: throw Error("** is implemented for integers only");
    default: break;
  }
  if (right == 0) throw Error("division by zero");
  if (sign == BinaryOperator::divide) return left / right;
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (sign == BinaryOperator::modulo) return remainder == 0 ? std::copysign(0.0, right) : remainder;
  const double quotient = (left - remainder) / right;
  const double down = std::floor(quotient);
  return quotient - down > 0.5 ? down + 1 : down;
}

bool is_plain_list(const List* list) {
  return list != nullptr && (list->kind == List::Kind::list || list->kind == List::Kind::tuple);
}

Value repeated(const Value& what, std::int64_t times, Rendering& rendering) {
  const std::uint64_t count = times > 0 ? static_cast<std::uint64_t>(times) : 0;
  if (const MarkedText* text = what.as<MarkedText>()) {
    MarkedText result;
    for (std::uint64_t i = 0; i < count && !text->empty(); ++i) {
      rendering.budget.charge(8 + text->size());
      result.append(*text);
    }
    return what.is_safe() ? Value(std::move(result)).made_safe() : Value(std::move(result));
  }
  const List* list = what.as_list();
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < count && !list->items.empty(); ++i) {
    rendering.budget.charge(16 * list->items.size());
    items.insert(items.end(), list->items.begin(), list->items.end());
  }
  return Value::of(List{list->kind, std::move(items)});
}

bool is_repeatable(const Value& value) { return value.as<MarkedText>() != nullptr || is_plain_list(value.as_list()); }

}  // namespace

Value arithmetic(BinaryOperator sign, const Value& left, const Value& right, Rendering& rendering) {
  require_defined(left);
  const MarkedText* text = left.as<MarkedText>();
  if (sign == BinaryOperator::modulo && text != nullptr) return formatted_with_percent(left, right, rendering);
  require_defined(right);
  const auto integer = integer_in(left);
  const auto other = integer_in(right);
  if (integer && other) return of_integers(sign, *integer, *other);
  if (number_in(left) && number_in(right)) return of_numbers(sign, *number_in(left), *number_in(right));
  if (sign == BinaryOperator::multiply && is_repeatable(left) && other) return repeated(left, *other, rendering);
  if (sign == BinaryOperator::multiply && integer && is_repeatable(right)) return repeated(right, *integer, rendering);
  if (sign != BinaryOperator::add) fail_types(shown(sign), left, right);
  if (const MarkedText* more = right.as<MarkedText>(); text != nullptr && more != nullptr) {
    rendering.budget.charge(text->size() + more->size());
    const bool safe = left.is_safe() || right.is_safe();
    MarkedText sum = safe && !left.is_safe() ? escaped(*text) : *text;
    sum.append(safe && !right.is_safe() ? escaped(*more) : *more);
    return safe ? Value(std::move(sum)).made_safe() : Value(std::move(sum));
  }
  const List* list = left.as_list();
  const List* more = right.as_list();
  if (!is_plain_list(list) || !is_plain_list(more) || list->kind != more->kind) fail_types("+", left, right);
  std::vector<Value> items = list->items;
  rendering.budget.charge(16 * (items.size() + more->items.size()));
  items.insert(items.end(), more->items.begin(), more->items.end());
  return Value::of(List{list->kind, std::move(items)});
}

Value negative(const Value& value) {
  require_defined(value);
  if (const auto* number = value.as<double>()) return -*number;
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, integer_of(value, "the sign -"), &result)) fail_size();
  return result;
}

Value positive(const Value& value) {
  require_defined(value);
  if (value.as<double>() != nullptr) return value;
  return integer_of(value, "the sign +");
}

}  // namespace draftproof::jinja
