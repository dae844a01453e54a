# SPDX-License-Identifier: MIT
# `make package`: three Debian packages, as good as the machine that makes them is the distribution they are for.
#   draftproof           the command, its man page and completions, and a systemd service that serves a small model
#                        until it is told to serve another one
#   libdraftproof-dev    the libraries and headers, for find_package(draftproof)
#   python3-draftproof   the Python package, where its module is built
# SOURCE_DATE_EPOCH in the environment, and the same umask, make two packages of one commit equal, byte by byte.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME draftproof)
set(CPACK_PACKAGE_CONTACT "the draftproof authors <noreply@draftproof.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "speculative decoding on CPUs that equals plain decoding, with proof")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL command libraries)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME draftproof)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "libopenblas0, libedit2")  # are opened by name: a kernel table, and chat
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/packaging/postinst;${CMAKE_SOURCE_DIR}/packaging/prerm;${CMAKE_SOURCE_DIR}/packaging/postrm;${CMAKE_SOURCE_DIR}/packaging/conffiles")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION
    "Runs language models on CPUs: from the command line, as a chat, and as a
server with the API of OpenAI. Small drafts make it faster, and the text stays
that of the model, bit for bit; the command can prove it, of itself and of
other engines.")

set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libdraftproof-dev)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_DEPENDS
    "libboost-dev, libfmt-dev, libgmp-dev, libhdf5-dev, libicu-dev, libpcre2-dev, libxxhash-dev, nlohmann-json3-dev, pkg-config")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_RECOMMENDS "g++, cmake, libgmock-dev")
set(CPACK_COMPONENT_LIBRARIES_DESCRIPTION
    "The engine and the oracle as C++20 libraries, with headers and files for
CMake's find_package(draftproof).")

# The files that the service and users of the package find beside the command.
function(draftproof_documents component package)
  install(FILES ${changelog} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright COMPONENT ${component}
          EXCLUDE_FROM_ALL)
endfunction()
set(changelog ${CMAKE_BINARY_DIR}/generated/changelog.gz)
install(CODE "execute_process(COMMAND gzip -9nc ${CMAKE_SOURCE_DIR}/packaging/changelog OUTPUT_FILE ${changelog}
                              COMMAND_ERROR_IS_FATAL ANY)" COMPONENT command EXCLUDE_FROM_ALL)
draftproof_documents(command draftproof)
draftproof_documents(libraries libdraftproof-dev)
install(FILES packaging/draftproof.service DESTINATION lib/systemd/system COMPONENT command EXCLUDE_FROM_ALL)
install(FILES packaging/draftproof.default DESTINATION /etc/default RENAME draftproof COMPONENT command
        EXCLUDE_FROM_ALL)
install(DIRECTORY fixtures/models/tale-target fixtures/models/tale-dflash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/draftproof/models COMPONENT command EXCLUDE_FROM_ALL)

# What the command is made of, in SPDX: the packages of its libraries, and of the headers that it was compiled with.
if(Python3_Interpreter_FOUND)
  set(bill ${CMAKE_BINARY_DIR}/generated/draftproof.spdx.json)
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" ${CMAKE_SOURCE_DIR}/packaging/bill_of_materials.py
                                ${CMAKE_BINARY_DIR} ${PROJECT_VERSION} OUTPUT_FILE ${bill} COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT command EXCLUDE_FROM_ALL)
  install(FILES ${bill} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/draftproof COMPONENT command EXCLUDE_FROM_ALL)
endif()

if(TARGET draftproof_python)
  list(APPEND CPACK_COMPONENTS_ALL module)
  set(CPACK_DEBIAN_MODULE_PACKAGE_NAME python3-draftproof)
  set(CPACK_DEBIAN_MODULE_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_MODULE_PACKAGE_SHLIBDEPS ON)
  math(EXPR next_python "${Python3_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_MODULE_PACKAGE_DEPENDS
      "python3-numpy, python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next_python})")
  set(CPACK_DEBIAN_MODULE_PACKAGE_CONTROL_EXTRA
      "${CMAKE_SOURCE_DIR}/packaging/module/postinst;${CMAKE_SOURCE_DIR}/packaging/module/prerm")
  set(CPACK_COMPONENT_MODULE_DESCRIPTION
      "The engine and the oracle in the Python process: write and check traces, prove
an acceptance function, test an engine with pytest, generate.")
  set(modules lib/python3/dist-packages)
  install(TARGETS draftproof_python LIBRARY DESTINATION ${modules}/draftproof COMPONENT module EXCLUDE_FROM_ALL)
  install(DIRECTORY python/draftproof DESTINATION ${modules} COMPONENT module EXCLUDE_FROM_ALL
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  foreach(model ${package_models})
    install(DIRECTORY fixtures/models/${model} DESTINATION ${modules}/draftproof/models COMPONENT module EXCLUDE_FROM_ALL
            PATTERN training.json EXCLUDE)
  endforeach()
  # What pip and pytest know of an installed package.
  set(facts ${CMAKE_BINARY_DIR}/generated/draftproof-${PROJECT_VERSION}.dist-info)
  file(CONFIGURE OUTPUT ${facts}/METADATA CONTENT "Metadata-Version: 2.1\nName: draftproof\nVersion: ${PROJECT_VERSION}\n")
  file(CONFIGURE OUTPUT ${facts}/entry_points.txt CONTENT "[pytest11]\ndraftproof = draftproof.pytest_plugin\n")
  install(DIRECTORY ${facts} DESTINATION ${modules} COMPONENT module EXCLUDE_FROM_ALL)
  draftproof_documents(module python3-draftproof)
endif()
include(CPack)
