# SPDX-License-Identifier: MIT
# cmake --install: the command, and the libraries with their headers for find_package(draftproof). What breaks the
# engine on purpose, and what only the command needs, stays here.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/draftproof)
install(TARGETS draftproof RUNTIME)
set(libraries kernels base formats text caches acceptance models drafts decoding oracle report spectrace)
list(TRANSFORM libraries PREPEND draftproof_)
install(TARGETS ${libraries} EXPORT draftproof-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/draftproof)
install(EXPORT draftproof-targets NAMESPACE draftproof:: DESTINATION ${package_folder})
install(DIRECTORY kernels ref oracle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/draftproof
        FILES_MATCHING PATTERN "*.h")
install(CODE "set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/draftproof)")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/installed_includes.cmake)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/draftproof-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/draftproof-config.cmake ${CMAKE_BINARY_DIR}/draftproof-config-version.cmake
        DESTINATION ${package_folder})
