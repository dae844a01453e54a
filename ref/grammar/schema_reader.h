// SPDX-License-Identifier: MIT
// What schemas say, by the specification of JSON Schema: nothing here is about how documents are written.
//
// A place of a document is described by several schemas together: those beside each other in allOf, behind references,
// and in the properties of either. A conjunction has them all; what leaves a choice (anyOf, oneOf, if, not,
// dependentRequired, ...) is a list of alternatives in it, of which one holds.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ref/formats/json.h"
#include "ref/grammar/regular_language.h"
#include "ref/grammar/schema_references.h"

namespace draftproof {

/// Kinds of values, as bits.
struct ValueKinds {
  static constexpr unsigned null = 1;
  static constexpr unsigned boolean = 2;
  static constexpr unsigned integer = 4;
  static constexpr unsigned fraction = 8;  // a number that is no integer
  static constexpr unsigned string = 16;
  static constexpr unsigned array = 32;
  static constexpr unsigned object = 64;
  static constexpr unsigned all = 127;
};

using Schemas = std::vector<Json>;

struct Conjunction {
  Schemas schemas;                            // what they say but for choices and references
  std::vector<std::vector<Schemas>> choices;  // of each, all schemas of one alternative hold
  bool nothing = false;                       // no value satisfies it
};

class SchemaReader {
 public:
  static constexpr int depth_max = 512;
  static constexpr int work_max = 200'000;   // schemas looked at, over and over
  static constexpr int count_max = 100'000;  // of characters, items and properties

  /// `root`: what references point into.
  explicit SchemaReader(const Json& root);

  /// All functions throw Error, naming the field, for what is no schema or not supported.
  Conjunction conjunction_of(const Schemas& schemas);
  /// The conjunction without its last choice, with this alternative of it instead.
  Conjunction with_alternative(const Conjunction& conjunction, const Schemas& alternative);

  /// Whether all that the schema says by itself is in the choices of its conjunction.
  static bool leaves_only_choices(const Json& schema);
  /// The kinds that `type` allows.
  static unsigned kinds_of(const Schemas& schemas);
  /// The values of enum and const that satisfy everything else; nullopt: there is no such keyword.
  std::optional<std::vector<Json>> values_of(const Conjunction& conjunction);
  /// Values that `not` excludes.
  static std::vector<Json> excluded_values(const Schemas& schemas);
  static bool restrict_numbers(const Schemas& schemas);
  /// The numbers of these kinds that they allow, written in any length.
  static RegularLanguage numbers_of(const Schemas& schemas, unsigned kinds);
  /// What restricts strings: patterns, lengths, formats. nullopt: nothing but lengths does.
  /// `only_whole`: formats of which parts are left out restrict nothing.
  std::optional<RegularLanguage> strings_of(const Schemas& schemas, bool only_whole);
  /// The strings that satisfy schemas.
  RegularLanguage names_of(const Conjunction& conjunction);

  struct Range {
    int min = 0;
    int max = -1;  // below 0: without end
    bool empty() const { return max >= 0 && max < min; }
  };
  static Range range_of(const Schemas& schemas, const char* min, const char* max);

  /// The names of an object that must be there, in order, once each.
  static std::vector<std::string> required_of(const Schemas& schemas);
  /// What the property of this name has to satisfy; nullopt: it may not be there.
  std::optional<Schemas> property_of(const Schemas& schemas, const std::string& name);
  /// What the item at this place has to satisfy; nullopt: there may be none.
  static std::optional<Schemas> item_of(const Schemas& schemas, std::size_t place);
  /// How many items have a place of their own.
  static std::size_t places_of(const Schemas& schemas);
  /// How many items have to satisfy `contains`.
  static int contained_min(const Json& schema);
  /// The texts that a pattern of names matches.
  const RegularLanguage& pattern(const std::string& expression, const Json& schema);

  bool satisfies(const Json& schema, const Json& value);
  /// Whether it is certain that no value satisfies both.
  bool exclude_each_other(const Json& one, const Json& other);

 private:
  void add(const Json& schema, Conjunction& conjunction, std::vector<const void*>& open);
  void add_choices(const Json& schema, Conjunction& conjunction);
  void add_one_of(const Json& schemas, Conjunction& conjunction);
  void add_choice(Conjunction& conjunction, std::vector<Schemas> alternatives);
  Json negation_of(const Json& schema);
  /// Alternatives that together are what does not satisfy a schema.
  std::vector<Schemas> denied(const Json& schema);
  Json made(const std::string& text, const Json& schema);
  /// Whether it is certain that no value satisfies them all.
  bool surely_nothing(const Conjunction& conjunction);
  /// ... that no value of this one kind does.
  bool surely_no(unsigned kind, const Schemas& schemas);
  bool satisfies_all(const Json& schema, const Json& value);
  bool string_satisfies(const Json& schema, const Json& value);
  bool array_satisfies(const Json& schema, const Json& value);
  bool object_satisfies(const Json& schema, const Json& value);
  void count_work();

  Json root_;
  SchemaReferences references_;
  int depth_ = 0;
  int work_ = 0;
  bool denying_ = false;  // inside of what must not be satisfied
  // While values are chosen: the one that is judged, and the enum that it comes from, which is not searched for it.
  const void* asked_ = nullptr;
  const void* taken_from_ = nullptr;
  // Lists of oneOf whose alternatives are compared: whether the value that is judged satisfies one is not known yet.
  std::vector<const void*> expanding_;
  std::map<const void*, RegularLanguage> numbers_;  // of one schema
  std::map<const void*, Json> negations_;
  std::map<std::string, RegularLanguage> patterns_;
  std::vector<Json> made_;  // kept, so that places of documents stay theirs
};

/// Whether two values are equal as JSON Schema has it.
bool same_value(const Json& one, const Json& other);

}  // namespace draftproof
