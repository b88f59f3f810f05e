# The libraries of the chat page, from the distribution's packages (deploy/packages.txt): marked reads Markdown, KaTeX
# draws formulas. The build copies both, with their licences, to QUIRE_WEB_LIBRARIES, in the form that
# coordinator/web/embed.cmake puts into the program. A package that changes is copied again.
set(QUIRE_WEB_LIBRARIES ${CMAKE_BINARY_DIR}/web_libraries)
set(WEB_LICENCES "Libraries of others in Quire's chat page, with their licences as their packages give them.\n")

# FILES: names that the library may have in `folders`, the smallest file first.
function(quire_web_library name package)
  cmake_parse_arguments(LIBRARY "" "" "FILES;FOLDERS" ${ARGN})
  find_file(QUIRE_WEB_${name} NAMES ${LIBRARY_FILES} PATHS ${LIBRARY_FOLDERS} NO_DEFAULT_PATH NO_CACHE)
  find_file(QUIRE_WEB_${name}_LICENCE NAMES copyright PATHS /usr/share/doc/${package} NO_DEFAULT_PATH NO_CACHE)
  if(NOT QUIRE_WEB_${name} OR NOT QUIRE_WEB_${name}_LICENCE)
    message(FATAL_ERROR "the chat page needs ${name} from the package ${package}, which is not installed: "
                        "run deploy/install-packages deploy/packages.txt")
  endif()
  configure_file(${QUIRE_WEB_${name}} ${QUIRE_WEB_LIBRARIES}/chat/libraries/${name}.js COPYONLY)
  file(READ ${QUIRE_WEB_${name}_LICENCE} licence)
  set(WEB_LICENCES "${WEB_LICENCES}\n\n=== ${name}, from ${package} ===\n\n${licence}" PARENT_SCOPE)
endfunction()

quire_web_library(marked libjs-marked FOLDERS /usr/share/javascript/marked FILES marked.umd.min.js marked.min.js)
quire_web_library(katex libjs-katex FOLDERS /usr/share/javascript/katex FILES katex.min.js katex.js)
file(CONFIGURE OUTPUT ${QUIRE_WEB_LIBRARIES}/chat/libraries/licences.txt CONTENT "${WEB_LICENCES}" @ONLY)
