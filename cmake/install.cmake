# SPDX-License-Identifier: MIT
# cmake --install: the command with its man page and completions, and the libraries with their headers for
# find_package(draftproof). The zoo, and libraries that only the command needs, are not installed.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/draftproof)
install(TARGETS draftproof RUNTIME COMPONENT command)
set(libraries kernels base formats text chat caches acceptance grammar models ranks drafts decoding oracle report spectrace twin)
list(TRANSFORM libraries PREPEND draftproof_)
install(TARGETS ${libraries} EXPORT draftproof-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/draftproof
        COMPONENT libraries)
install(EXPORT draftproof-targets NAMESPACE draftproof:: DESTINATION ${package_folder} COMPONENT libraries)
# What docs/library.md says of each; what they include is installed with them.
set(public_headers
    oracle/checks/checks.h
    oracle/matchers.h
    oracle/plain/plain.h
    oracle/report/report.h
    oracle/spectrace/replay.h
    oracle/spectrace/writer.h
    ref/chat/chat_template.h
    ref/decoding/decoder.h
    ref/decoding/engine.h
    ref/drafts/model_draft.h
    ref/grammar/grammar_constraint.h
    ref/grammar/json_schema.h
    ref/models/hash.h
    ref/models/models.h
    ref/text/tokenizer.h)
install(CODE "set(source \"${CMAKE_SOURCE_DIR}\")
              set(public_headers ${public_headers})
              set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/draftproof)" COMPONENT libraries)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/installed_headers.cmake COMPONENT libraries)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/draftproof-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/draftproof-config.cmake ${CMAKE_BINARY_DIR}/draftproof-config-version.cmake
        DESTINATION ${package_folder} COMPONENT libraries)

# The command prints its own man page and completions.
set(generated ${CMAKE_BINARY_DIR}/generated)
function(draftproof_installs_output file destination)
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:draftproof>\" ${ARGN}
                                OUTPUT_FILE \"${generated}/${file}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT command)
  install(FILES ${generated}/${file} DESTINATION ${destination} COMPONENT command)
endfunction()
file(MAKE_DIRECTORY ${generated})
draftproof_installs_output(draftproof.1.gz ${CMAKE_INSTALL_MANDIR}/man1 man COMMAND gzip -9n)
draftproof_installs_output(draftproof ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
draftproof_installs_output(_draftproof ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
draftproof_installs_output(draftproof.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
