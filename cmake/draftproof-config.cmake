# SPDX-License-Identifier: MIT
# find_package(draftproof): targets draftproof::oracle, draftproof::decoding and what they stand on. Headers are
# included as <draftproof/oracle/matchers.h>, <draftproof/ref/decoding/decoder.h>.
include(CMakeFindDependencyMacro)
find_dependency(Boost CONFIG)
find_dependency(OpenMP COMPONENTS CXX)
find_dependency(nlohmann_json)
find_dependency(fmt)
find_dependency(PkgConfig)
pkg_check_modules(PCRE2 REQUIRED QUIET IMPORTED_TARGET libpcre2-8)
pkg_check_modules(ICU REQUIRED QUIET IMPORTED_TARGET icu-uc)
pkg_check_modules(GMP REQUIRED QUIET IMPORTED_TARGET gmp)
pkg_check_modules(HDF5 REQUIRED QUIET IMPORTED_TARGET hdf5)
pkg_check_modules(XXHASH REQUIRED QUIET IMPORTED_TARGET libxxhash)
include(${CMAKE_CURRENT_LIST_DIR}/draftproof-targets.cmake)
