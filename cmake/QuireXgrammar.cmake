# xgrammar, which says what a grammar lets an answer go on with: a static library of our own from the sources of PyPI's
# distribution (deploy/xgrammar-requirements.txt pins version and hash), without its Python bindings. Its flags are its own: it warns,
# and its log goes to the functions that comm/grammar/grammar_compiler.cc defines.
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/deploy/fetch-xgrammar OUTPUT_VARIABLE XGRAMMAR_SOURCES OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE XGRAMMAR_FILES ${XGRAMMAR_SOURCES}/cpp/*.cc)
list(FILTER XGRAMMAR_FILES EXCLUDE REGEX "/cpp/tvm_ffi/")
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${XGRAMMAR_FILES})
target_include_directories(xgrammar SYSTEM PUBLIC ${XGRAMMAR_SOURCES}/include ${XGRAMMAR_SOURCES}/3rdparty/picojson
                           ${XGRAMMAR_SOURCES}/3rdparty/dlpack/include)
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
target_compile_options(xgrammar PRIVATE -w)
target_compile_features(xgrammar PRIVATE cxx_std_17)
target_link_libraries(xgrammar PUBLIC Threads::Threads)
