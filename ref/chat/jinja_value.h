// SPDX-License-Identifier: MIT
// The values of a template: those of Python that Jinja works with, printed and compared as Python does it.
//
// Containers never change after they are built, as in Jinja's immutable sandbox; so none contains itself, and each
// knows how deep it nests. Namespaces do change; the interpreter owns them, and a value only refers to one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ref/chat/marked_text.h"
#include "ref/formats/json.h"

namespace draftproof::jinja {

/// The work that a rendering may do, in units of about a nanosecond: what nests or repeats without end runs out of it.
class Budget {
 public:
  explicit Budget(std::uint64_t units) : left_(units) {}
  /// Throws Error when less is left. The product may be beyond 64 bits.
  void charge(std::uint64_t units, std::uint64_t times = 1);
  /// For a search, which may compare nearly all of `what` at every place of `text`.
  void charge_search(std::string_view text, std::string_view what) { charge(1 + what.size() / 32, text.size()); }

 private:
  std::uint64_t left_;
};

class Value;
struct Dict;
struct List;
struct Loop;
struct Namespace;
struct Callable;

struct Undefined {
  std::string why;  // the sentence of the Error that using it throws
};
struct None {};

/// Most levels that containers nest.
inline constexpr int value_depth_max = 256;

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const MarkedText>,
                            std::shared_ptr<List>, std::shared_ptr<const Dict>, std::shared_ptr<const Loop>, Namespace*,
                            std::shared_ptr<const Callable>>;

  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}          // NOLINT: a value is what it holds
  Value(std::int64_t value) : data_(value) {}  // NOLINT
  Value(double value) : data_(value) {}        // NOLINT
  Value(MarkedText text) : data_(std::make_shared<const MarkedText>(std::move(text))) {}  // NOLINT
  Value(Namespace& space) : data_(&space) {}                                              // NOLINT
  Value(const char*) = delete;
  static Value text(std::string of_template) { return MarkedText(std::move(of_template)); }
  static Value undefined(std::string why);
  /// Throw Error when they nest too deep.
  static Value list(std::vector<Value> items);
  static Value of(List list);
  static Value of(Dict dict);
  static Value of(Loop loop);
  static Value of(Callable callable);
  /// JSON that a user wrote, names included; or that is part of the model, like the template.
  static Value from_json(const Json& json, bool by_user);

  template <class Type>
  const Type* as() const noexcept {
    if constexpr (std::is_same_v<Type, MarkedText> || std::is_same_v<Type, Dict> || std::is_same_v<Type, Loop> ||
                  std::is_same_v<Type, Callable>) {
      const auto* held = std::get_if<std::shared_ptr<const Type>>(&data_);
      return held != nullptr ? held->get() : nullptr;
    } else {
      return std::get_if<Type>(&data_);
    }
  }
  List* as_list() const noexcept;  // of every kind
  Namespace* as_namespace() const noexcept;
  /// Whether the filter `safe` made this string: what Jinja adds to it or formats with it is escaped as HTML.
  bool is_safe() const noexcept { return safe_; }
  Value made_safe() const {
    Value value = *this;
    value.safe_ = true;
    return value;
  }
  bool is_undefined() const noexcept { return as<Undefined>() != nullptr; }
  bool is_none() const noexcept { return as<None>() != nullptr; }

  /// 1 for a container of values without containers; 0 for those.
  int depth() const noexcept;
  /// Python's name of the type, for messages: "str", "dict".
  const char* type_name() const noexcept;

 private:
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
  bool safe_ = false;
};

/// A sequence. A view is that of a dictionary's keys, values or items; an iterator gives its items once.
struct List {
  static constexpr std::string_view group = "group";
  enum class Kind { list, tuple, range, view, iterator };
  Kind kind = Kind::list;
  std::vector<Value> items;
  std::string view = {};  // "dict_keys", ...; of a tuple `group`, when its parts have the names grouper and list
  int depth = 1;          // computed by Value::of
};

/// Keys in the order in which they were added.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::map<std::string, std::size_t, std::less<>> places;  // by identity_of
  int depth = 1;

  /// Adds the entry, or gives the key another value. Throws Error for a key that cannot be one.
  void set(const Value& key, Value value, Budget& budget);
  void set(MarkedText key, Value value);
  void set(const std::string& key_of_template, Value value) { set(MarkedText(key_of_template), std::move(value)); }
  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;

 private:
  void set(const Value& key, std::string identity, Value value);
};

/// What changes: a namespace, and what the functions cycler and joiner make.
struct Namespace {
  enum class Kind { plain, cycler, joiner };
  Kind kind = Kind::plain;
  std::map<std::string, Value, std::less<>> attributes = {};
  std::vector<Value> items = {};  // of a cycler or joiner
  std::size_t next = 0;           // of them
};

/// The variable `loop` of one loop.
struct Loop {
  std::shared_ptr<const std::vector<Value>> items;
  std::shared_ptr<std::size_t> index;  // from 0
  int depth = 1;
};

struct Macro;
struct Caller;

/// What can be called.
struct Callable {
  std::string name;  // of a function, or of a method of `receiver`
  std::optional<Value> receiver = {};
  const Macro* macro = nullptr;    // of the template, which outlives the rendering
  const Caller* caller = nullptr;  // owned by the interpreter
  int depth = 1;
};

/// Returns the number that an int, a float or a bool is; nothing for another value.
std::optional<double> number_of(const Value& value);
/// Python's bool(), ==, and the equivalence of dictionary keys; keys are equal exactly when their identities are.
bool is_true(const Value& value);
bool equal(const Value& left, const Value& right, Budget& budget);
/// Returns nothing for a value that cannot be a key.
std::optional<std::string> identity_of(const Value& key, Budget& budget);

}  // namespace draftproof::jinja
