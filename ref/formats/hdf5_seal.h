// SPDX-License-Identifier: MIT
// HDF5 files that state their own hash: root attribute sha256, 64 digits, that of the whole file with these digits
// replaced by zeros. It is looked at before the HDF5 library, which is not safe on damaged files, sees a byte: a file
// cut short or changed in any bit is refused. The file is read piece by piece, however large.
#pragma once

#include <filesystem>

#include "ref/formats/hdf5.h"

namespace draftproof {

/// Makes the attribute. To be the first that is found, it is the first thing written.
void prepare_seal(Hdf5& file);

/// The last step of writing: puts the hash into a closed file that has the attribute, any 64 digits.
void seal(const std::filesystem::path& file);

/// Error when it does not bear its own hash.
void expect_seal(const std::filesystem::path& file);

/// The same, and opens it.
Hdf5 open_sealed(const std::filesystem::path& file);

}  // namespace draftproof
