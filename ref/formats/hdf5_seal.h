// SPDX-License-Identifier: MIT
// HDF5 files that contain their own hash: the root attribute sha256 has 64 digits, the SHA-256 of the whole file with
// these digits replaced by zeros. It is checked before the HDF5 library, which is not safe on damaged files, reads a
// byte: a file that was truncated or changed in any bit is rejected. The file is read in parts, whatever its size.
#pragma once

#include <filesystem>

#include "ref/formats/hdf5.h"

namespace draftproof {

/// Creates the attribute. Must be the first write to the file, so that the attribute is the first one found.
void prepare_seal(Hdf5& file);

/// Writes the hash into a closed file that has the attribute with any 64 digits. Must be the last step of writing.
void seal(const std::filesystem::path& file);

/// Throws Error when the file does not contain its own hash.
void expect_seal(const std::filesystem::path& file);

/// Checks the hash and opens the file.
Hdf5 open_sealed(const std::filesystem::path& file);

}  // namespace draftproof
