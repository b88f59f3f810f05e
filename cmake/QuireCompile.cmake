# Flags of every Quire target. Third-party headers are system headers and warn about nothing.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(quire_flags INTERFACE)
target_include_directories(quire_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(quire_flags INTERFACE -Wall -Wextra $<$<COMPILE_LANGUAGE:CXX>:-Wpedantic> -Wshadow -Wno-missing-field-initializers -fno-omit-frame-pointer)
target_compile_definitions(quire_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(QUIRE_SANITIZE)
  target_compile_options(quire_flags INTERFACE -fsanitize=${QUIRE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(quire_flags INTERFACE -fsanitize=${QUIRE_SANITIZE})
else()
  # Verified in the programs by tests/hardening_test.py.
  set(hardening -fstack-protector-strong -fstack-clash-protection)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection QUIRE_HAS_CF_PROTECTION)  # x86 only
  if(QUIRE_HAS_CF_PROTECTION)
    list(APPEND hardening -fcf-protection)
  endif()
  target_compile_options(quire_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${hardening}>")
  target_compile_definitions(quire_flags INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
  target_link_options(quire_flags INTERFACE $<$<CONFIG:Release>:-Wl,-z,relro,-z,now,-z,noexecstack>)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)  # executables are linked as such, too

# quire_library(name SOURCES... DEPS targets...): a static library with the project's flags.
function(quire_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC quire_flags ${ARG_DEPS})
endfunction()
