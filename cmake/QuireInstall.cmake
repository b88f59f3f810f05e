# Where `cmake --install BUILD` puts files, and the Debian package of the same files (deploy/make-package).
include(GNUInstallDirs)

# The program itself writes the manual page and the shells' completions.
set(QUIRE_WRITTEN ${CMAKE_BINARY_DIR}/written)
file(MAKE_DIRECTORY ${QUIRE_WRITTEN})
add_custom_command(OUTPUT ${QUIRE_WRITTEN}/quire.1
                   COMMAND quire manual > ${QUIRE_WRITTEN}/quire.1 DEPENDS quire VERBATIM)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${QUIRE_WRITTEN}/quire.${shell}
                     COMMAND quire completion ${shell} > ${QUIRE_WRITTEN}/quire.${shell} DEPENDS quire VERBATIM)
endforeach()
# Texts are compressed as Debian requires; `man` reads the compressed manual. Equal texts give equal files (-n).
set(QUIRE_PACKED quire.1.gz third-party-notices.gz changelog.gz)
add_custom_command(OUTPUT ${QUIRE_WRITTEN}/quire.1.gz COMMAND gzip -9n < quire.1 > quire.1.gz
                   WORKING_DIRECTORY ${QUIRE_WRITTEN} DEPENDS ${QUIRE_WRITTEN}/quire.1 VERBATIM)
add_custom_command(OUTPUT ${QUIRE_WRITTEN}/changelog.gz
                   COMMAND gzip -9n < ${CMAKE_SOURCE_DIR}/CHANGELOG.md > changelog.gz
                   WORKING_DIRECTORY ${QUIRE_WRITTEN} DEPENDS ${CMAKE_SOURCE_DIR}/CHANGELOG.md VERBATIM)
set(NOTICES ${CMAKE_SOURCE_DIR}/deploy/third-party-notices)
add_custom_command(OUTPUT ${QUIRE_WRITTEN}/third-party-notices.gz
                   COMMAND ${NOTICES} ${XGRAMMAR_SOURCES} | gzip -9n > third-party-notices.gz
                   WORKING_DIRECTORY ${QUIRE_WRITTEN}
                   DEPENDS ${NOTICES} ${CMAKE_SOURCE_DIR}/deploy/packages.txt VERBATIM)
list(TRANSFORM QUIRE_PACKED PREPEND ${QUIRE_WRITTEN}/)
add_custom_target(written ALL DEPENDS ${QUIRE_PACKED} ${QUIRE_WRITTEN}/quire.bash ${QUIRE_WRITTEN}/quire.zsh
                                      ${QUIRE_WRITTEN}/quire.fish)
install(FILES ${QUIRE_WRITTEN}/quire.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${QUIRE_WRITTEN}/quire.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME quire-worker.1.gz)
install(FILES ${QUIRE_WRITTEN}/quire.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME quire)
install(FILES ${QUIRE_WRITTEN}/quire.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _quire)
install(FILES ${QUIRE_WRITTEN}/quire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# `quire serve ORG/NAME --fetch` runs fetch-model. The files that fetch-model reads are installed beside it.
install(PROGRAMS deploy/fetch-model DESTINATION ${CMAKE_INSTALL_DATADIR}/quire)
install(FILES deploy/fetch_model.py deploy/user_cache.py deploy/fetch-requirements.txt deploy/model-requirements.txt
        DESTINATION ${CMAKE_INSTALL_DATADIR}/quire)

install(FILES README.md SECURITY.md ${QUIRE_WRITTEN}/changelog.gz ${QUIRE_WRITTEN}/third-party-notices.gz
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${QUIRE_WEB_LIBRARIES}/chat/libraries/licences.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}
        RENAME licences-of-the-chat-page.txt)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES deploy/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy)
install(DIRECTORY deploy/topologies deploy/grafana deploy/prometheus deploy/slurm deploy/k8s
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy)

# The unit names the installed program. The settings for dpkg are only for this package.
file(READ deploy/systemd/quire.service UNIT)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS deploy/systemd/quire.service)
string(REPLACE /usr/local ${CMAKE_INSTALL_PREFIX} UNIT "${UNIT}")
file(GENERATE OUTPUT ${QUIRE_WRITTEN}/quire.service CONTENT "${UNIT}")

if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
  # A package for the distribution. Debian 12 keeps systemd units in /lib. The package has a changelog of its own beside
  # the project's.
  install(FILES ${QUIRE_WRITTEN}/quire.service DESTINATION /lib/systemd/system)
  install(FILES deploy/topologies/cpu.yaml DESTINATION /etc/quire RENAME topology.yaml)
  install(FILES deploy/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES deploy/debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME quire)
  install(FILES ${QUIRE_WRITTEN}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
else()
  install(FILES ${QUIRE_WRITTEN}/quire.service DESTINATION lib/systemd/system)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quire)
set(CPACK_PACKAGE_VERSION ${QUIRE_VERSION})
set(CPACK_PACKAGE_CONTACT "the Quire team <quire@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server of large language models with a paged KV cache")
set(CPACK_PACKAGE_DESCRIPTION "Quire serves large language models from a paged KV cache to many users.
It speaks the OpenAI, Messages and Responses APIs over HTTP. One coordinator
plans every step; workers, which mpirun starts, compute a share of the model
each, on CPUs. A worker that dies is replaced, and answers go on.

The service waits for its topology: /etc/quire/topology.yaml names the model.
The runbook is deploy/README.md in the package's documents.")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, passwd, python3:any")
# ssh starts workers on other hosts; pip installs the client with which fetch-model fetches models.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openssh-client, python3-pip")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(SCRIPTS conffiles postinst prerm postrm)
list(TRANSFORM SCRIPTS PREPEND ${CMAKE_SOURCE_DIR}/deploy/debian/)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${SCRIPTS})
set(CPACK_STRIP_FILES ON)
include(CPack)
