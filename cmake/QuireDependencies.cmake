# All dependencies come from the distribution; deploy/packages.txt lists its packages.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
# ZeroMQ's flags also name folders of its own dependencies, one of them by -isystem. CMake takes this flag for an
# include directory when pkg-config prints it, but for an option when it comes from CMake's cache. Then the second
# configuration would build everything again.
set_target_properties(PkgConfig::ZMQ PROPERTIES
                      INTERFACE_INCLUDE_DIRECTORIES "${ZMQ_INCLUDEDIR}" INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
find_program(FLATC flatc REQUIRED)
find_package(MPI COMPONENTS CXX) # for the worker only; the coordinator builds without MPI
include(QuireCuda) # the CUDA backend, if it can be built
