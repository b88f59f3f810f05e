# The flags of all Quire targets. Third-party headers count as system headers, so they cause no warnings.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # ccache shares results between checkouts, because it treats paths inside a checkout as relative.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE_PROGRAM})
endif()

add_library(quire_flags INTERFACE)
target_include_directories(quire_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(quire_flags INTERFACE -Wall -Wextra $<$<COMPILE_LANGUAGE:CXX>:-Wpedantic> -Wshadow
                       -Wno-missing-field-initializers -fno-omit-frame-pointer)
target_compile_definitions(quire_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(QUIRE_SANITIZE)
  target_compile_options(quire_flags INTERFACE -fsanitize=${QUIRE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(quire_flags INTERFACE -fsanitize=${QUIRE_SANITIZE})
else()
  # tests/hardening_test.py checks in the built programs that these flags took effect.
  set(hardening -fstack-protector-strong -fstack-clash-protection)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection QUIRE_HAS_CF_PROTECTION)  # x86 only
  if(QUIRE_HAS_CF_PROTECTION)
    list(APPEND hardening -fcf-protection)
  endif()
  target_compile_options(quire_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${hardening}>")
  # Level 3 also checks objects whose size is known only at run time. It needs support of the compiler and of the
  # system's headers. It overrides a level that the distribution sets.
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("#include <features.h>\n#if __USE_FORTIFY_LEVEL < 3\n#error\n#endif\nint main() {}"
                            QUIRE_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(fortify -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${QUIRE_HAS_FORTIFY_3}>,3,2>)
  target_compile_options(quire_flags INTERFACE "$<$<CONFIG:Release>:${fortify}>")
  target_link_options(quire_flags INTERFACE $<$<CONFIG:Release>:-Wl,-z,relro,-z,now,-z,noexecstack>)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)  # executables are linked as position-independent, too

# A level above -O2 would take an eighth more of the compiler's time. Only libraries with their own compute loops use
# -O3 (quire_library's NUMERIC).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Most of a source's compile time goes to headers and templates that its neighbours need, too. 32 sources in one batch
# take half the time of four batches of eight, and a quarter of the time of 32 single ones. A single build compiles them
# in a batch; a developer's build compiles them one by one.
option(QUIRE_UNITY_BUILD "Compile several sources of a library at once" OFF)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 32)

# Makes the compiler collect garbage late: a batch takes a seventh less time, and 2 GiB of memory instead of 1.3.
cmake_host_system_information(RESULT QUIRE_MEMORY_MIB QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT QUIRE_CORES QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR QUIRE_MEMORY_PER_CORE "${QUIRE_MEMORY_MIB} / ${QUIRE_CORES}")
if(QUIRE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND QUIRE_MEMORY_PER_CORE GREATER 4000)
  target_compile_options(quire_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=2000000>")
endif()

# quire_library(name [NUMERIC | COLD] SOURCES... DEPS targets...): a static library with the project's flags.
# NUMERIC: the library has its own compute loops, so it uses -O3.
#   COLD: the library runs once per start or command, so it uses -O1, which takes a third less time to compile.
function(quire_library name)
  cmake_parse_arguments(ARG "NUMERIC;COLD" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_NUMERIC)
    target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O3>)
  elseif(ARG_COLD)
    target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${QUIRE_UNITY_BUILD})
  if(QUIRE_UNITY_BUILD)
    # A source file that another source includes is no header, so this warning does not apply to it.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  target_link_libraries(${name} PUBLIC quire_flags ${ARG_DEPS})
endfunction()
