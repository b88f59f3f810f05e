# QUIRE_VERSION is the program's version, set once when CMake runs. In a checkout whose commit has the tag v1.2.3, the
# version is 1.2.3. Some commits later the version is 1.2.3+4.gabcdef1, which packages treat as a later version. Without
# such a tag, or without git, the version is the project's.
set(QUIRE_VERSION ${PROJECT_VERSION})
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} -c safe.directory=${CMAKE_SOURCE_DIR} describe --tags --match "v[0-9]*"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE failed)
  if(NOT failed AND described MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)(-([0-9]+)-(g[0-9a-f]+))?$")
    set(QUIRE_VERSION ${CMAKE_MATCH_1})
    if(CMAKE_MATCH_2)
      string(APPEND QUIRE_VERSION "+${CMAKE_MATCH_3}.${CMAKE_MATCH_4}")
    endif()
  endif()
endif()
