# Sets QUIRE_HAS_CUDA when kernels can be compiled and linked. QUIRE_CUDA=AUTO uses CUDA if it is found, ON requires it,
# OFF does not look for it.
if(NOT DEFINED QUIRE_CUDA)
  set(QUIRE_CUDA AUTO CACHE STRING "CUDA backend: AUTO, ON or OFF")
endif()
set(QUIRE_HAS_CUDA OFF)
if(NOT QUIRE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # Binaries for each GPU generation that has its own kernels. If the toolkit knows the newest generation, the build
    # also makes PTX of that generation, which drivers compile for later generations.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90a-real)
      set(QUIRE_CUDA_ARCHITECTURES_DEFAULTED ON)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc supports C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    if(QUIRE_CUDA_ARCHITECTURES_DEFAULTED AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND CMAKE_CUDA_ARCHITECTURES 100-real 120)
    endif()
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
    find_package(CUDAToolkit)
    set(QUIRE_HAS_CUDA ${CUDAToolkit_FOUND})
  endif()
  if(QUIRE_CUDA STREQUAL "ON" AND NOT QUIRE_HAS_CUDA)
    message(FATAL_ERROR "QUIRE_CUDA is ON, but there is no nvcc (PATH, CUDACXX) or no toolkit")
  endif()
endif()

# Programs that are packed together (tests/gpu/pack) share one library of kernels instead of having a copy each.
option(QUIRE_SHARED_KERNELS "Build CUDA kernels as shared libraries" OFF)

# quire_cuda_library(name SOURCES... DEPS targets...): a library of kernels, which nvcc compiles with flags of its own.
function(quire_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(QUIRE_SHARED_KERNELS)
    add_library(${name} SHARED ${ARG_SOURCES})
    set_target_properties(${name} PROPERTIES DEFINE_SYMBOL "")  # the same objects as in the static library
  else()
    add_library(${name} STATIC ${ARG_SOURCES})
  endif()
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} PRIVATE ${CMAKE_SOURCE_DIR}/kernels/cuda)
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall;-Werror=all-warnings>")
  # Defined if the build has code for sm_90a, which some kernels need (kernels/cuda/simt/group_mma.cuh).
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
    target_compile_definitions(${name} PRIVATE QUIRE_HAS_SM90A)
  endif()
  target_link_libraries(${name} PUBLIC CUDA::cudart ${ARG_DEPS})
endfunction()

# NCCL has no CMake package file. It comes with the distribution, with the toolkit or as NVIDIA's archive.
set(QUIRE_HAS_NCCL OFF)
if(QUIRE_HAS_CUDA)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
  if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(QUIRE_HAS_NCCL ON)
    add_library(quire_nccl_library INTERFACE)
    target_include_directories(quire_nccl_library SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
    target_link_libraries(quire_nccl_library INTERFACE ${NCCL_LIBRARY})
  endif()
endif()
