# SPDX-License-Identifier: MIT
# `make package`: a Debian package with the command, its man page and completions, and a systemd service that serves a
# small model until it is told to serve another one.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME draftproof)
set(CPACK_PACKAGE_CONTACT "the draftproof authors <noreply@draftproof.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "speculative decoding on CPUs that equals plain decoding, with proof")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION
    "Runs language models on CPUs: from the command line, as a chat, and as a
server with the API of OpenAI. Small drafts make it faster, and the text stays
that of the model, bit for bit; the command can prove it, of itself and of
other engines.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME draftproof)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "libopenblas0, libedit2")  # are opened by name: a kernel table, and chat
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/packaging/postinst;${CMAKE_SOURCE_DIR}/packaging/prerm;${CMAKE_SOURCE_DIR}/packaging/postrm;${CMAKE_SOURCE_DIR}/packaging/conffiles")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

install(FILES packaging/draftproof.service DESTINATION lib/systemd/system COMPONENT command EXCLUDE_FROM_ALL)
install(FILES packaging/draftproof.default DESTINATION /etc/default RENAME draftproof COMPONENT command
        EXCLUDE_FROM_ALL)
install(DIRECTORY fixtures/models/tale-target fixtures/models/tale-dflash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/draftproof/models COMPONENT command EXCLUDE_FROM_ALL)
set(changelog ${CMAKE_BINARY_DIR}/generated/changelog.gz)
install(CODE "execute_process(COMMAND gzip -9nc ${CMAKE_SOURCE_DIR}/packaging/changelog OUTPUT_FILE ${changelog}
                              COMMAND_ERROR_IS_FATAL ANY)" COMPONENT command EXCLUDE_FROM_ALL)
install(FILES ${changelog} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/draftproof COMPONENT command EXCLUDE_FROM_ALL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/draftproof RENAME copyright COMPONENT command
        EXCLUDE_FROM_ALL)
include(CPack)
