// SPDX-License-Identifier: MIT
// What $ref of a schema points to, within its document.
#pragma once

#include <string>

#include "ref/formats/json.h"

namespace draftproof {

class SchemaReferences {
 public:
  /// `root`: the document. Throws Error, naming the field, where a reference is inside of a schema with an $id of its
  /// own, from which it would start.
  explicit SchemaReferences(const Json& root);

  /// The schema that a JSON pointer or an anchor names. Throws Error, naming the reference, where there is none.
  Json target_of(const Json& reference) const;

 private:
  Json root_;
  std::string own_name_;  // the $id of the root
};

}  // namespace draftproof
