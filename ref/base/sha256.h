// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), for hashes that users check with other tools. digest.h is many times faster and serves
// everything else.
#pragma once

#include "ref/base/sha.h"

namespace draftproof {

class Sha256 : public Sha<8> {  // 64 digits
 public:
  Sha256() noexcept;
};

}  // namespace draftproof
