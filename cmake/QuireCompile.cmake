# Flags of every Quire target. Third-party headers are system headers and warn about nothing.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # What one checkout has compiled another one finds: paths inside of it count as relative.
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
  # Verified in the programs by tests/hardening_test.py.
  set(hardening -fstack-protector-strong -fstack-clash-protection)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection QUIRE_HAS_CF_PROTECTION)  # x86 only
  if(QUIRE_HAS_CF_PROTECTION)
    list(APPEND hardening -fcf-protection)
  endif()
  target_compile_options(quire_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${hardening}>")
  # Level 3 also checks objects whose size is known only when the program runs. The system's headers say whether they
  # and the compiler have it; distributions that set a level of their own are overruled.
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
check_pie_supported(LANGUAGES CXX)  # executables are linked as such, too

# A higher level than -O2 costs an eighth more of the compiler's time. Only libraries whose own loops compute take it
# (quire_library's NUMERIC).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# A source spends most of the compiler's time on headers and templates that its neighbours need, too: 32 sources
# compiled at once take half the time of four times eight, and a quarter of the time of 32 by themselves. Whoever
# builds once compiles them at once; whoever changes files compiles them one by one.
option(QUIRE_UNITY_BUILD "Compile several sources of a library at once" OFF)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 32)

# The compiler collects its garbage late: a batch of sources takes a seventh less time, and 2 GiB instead of 1.3.
cmake_host_system_information(RESULT QUIRE_MEMORY_MIB QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT QUIRE_CORES QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR QUIRE_MEMORY_PER_CORE "${QUIRE_MEMORY_MIB} / ${QUIRE_CORES}")
if(QUIRE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND QUIRE_MEMORY_PER_CORE GREATER 4000)
  target_compile_options(quire_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=2000000>")
endif()

# quire_library(name [NUMERIC | COLD] SOURCES... DEPS targets...): a static library with the project's flags.
#   NUMERIC: its own loops compute, so that -O3 pays.
#   COLD: it runs once a start or a command, so that -O1 is enough; the compiler needs a third less time.
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
    # A source that is included by another is no header that many would include.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  target_link_libraries(${name} PUBLIC quire_flags ${ARG_DEPS})
endfunction()
