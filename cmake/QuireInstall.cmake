# What `cmake --install BUILD` puts where, and the Debian package of the same files (deploy/make-package).
include(GNUInstallDirs)

# The manual page and the shells' completions are what the program says of itself.
set(QUIRE_WRITTEN ${CMAKE_BINARY_DIR}/written)
file(MAKE_DIRECTORY ${QUIRE_WRITTEN})
add_custom_command(OUTPUT ${QUIRE_WRITTEN}/quire.1
                   COMMAND quire manual > ${QUIRE_WRITTEN}/quire.1 DEPENDS quire VERBATIM)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${QUIRE_WRITTEN}/quire.${shell}
                     COMMAND quire completion ${shell} > ${QUIRE_WRITTEN}/quire.${shell} DEPENDS quire VERBATIM)
endforeach()
add_custom_target(written ALL DEPENDS ${QUIRE_WRITTEN}/quire.1 ${QUIRE_WRITTEN}/quire.bash ${QUIRE_WRITTEN}/quire.zsh
                                      ${QUIRE_WRITTEN}/quire.fish)
install(FILES ${QUIRE_WRITTEN}/quire.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${QUIRE_WRITTEN}/quire.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME quire)
install(FILES ${QUIRE_WRITTEN}/quire.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _quire)
install(FILES ${QUIRE_WRITTEN}/quire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(FILES README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY deploy/topologies deploy/grafana deploy/prometheus deploy/slurm deploy/k8s
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy)

# The unit names the program where it is installed; dpkg's settings are this package's.
file(READ deploy/systemd/quire.service UNIT)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS deploy/systemd/quire.service)
string(REPLACE /usr/local ${CMAKE_INSTALL_PREFIX} UNIT "${UNIT}")
file(GENERATE OUTPUT ${QUIRE_WRITTEN}/quire.service CONTENT "${UNIT}")
install(FILES ${QUIRE_WRITTEN}/quire.service DESTINATION lib/systemd/system)

if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
  install(FILES deploy/topologies/cpu.yaml DESTINATION /etc/quire RENAME topology.yaml)
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quire)
set(CPACK_PACKAGE_VERSION ${QUIRE_VERSION})
set(CPACK_PACKAGE_CONTACT "the Quire team <quire@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, passwd")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openssh-client)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(SCRIPTS conffiles postinst prerm postrm)
list(TRANSFORM SCRIPTS PREPEND ${CMAKE_SOURCE_DIR}/deploy/debian/)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${SCRIPTS})
set(CPACK_STRIP_FILES ON)
include(CPack)
