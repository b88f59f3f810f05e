# cmake -D PAGES=folder -D OUT=file -P embed.cmake: writes the files of the folder as raw strings into a C++ source that
# defines EmbeddedFiles() (web_texts.h). A string literal may be 64 KiB at the least a compiler must take, so files are
# smaller than that.
file(GLOB_RECURSE files RELATIVE ${PAGES} ${PAGES}/*)
list(SORT files)
set(text "// Made by coordinator/web/embed.cmake.\n#include \"coordinator/web/web_texts.h\"\n\nnamespace quire {\n\n")
string(APPEND text "namespace {\n\nconstexpr EmbeddedFile kFiles[] = {\n")
foreach(file ${files})
  file(SIZE ${PAGES}/${file} size)
  if(size GREATER 65536)
    message(FATAL_ERROR "${file}: ${size} bytes; split it, at most 65536 are embedded as one text")
  endif()
  file(READ ${PAGES}/${file} content)
  string(FIND "${content}" ")page\"" delimiter)
  if(NOT delimiter EQUAL -1)
    message(FATAL_ERROR "${file} holds the delimiter of the raw string")
  endif()
  string(APPEND text "    {\"${file}\", R\"page(${content})page\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\n"
       "std::span<const EmbeddedFile> EmbeddedFiles() { return kFiles; }\n\n}  // namespace quire\n")
file(WRITE ${OUT} "${text}")
