# Builds xgrammar, which computes the tokens that a grammar allows next. It is a static library from the sources of
# PyPI's distribution (deploy/xgrammar-requirements.txt pins version and hash), without the Python bindings. It has
# flags of its own, because it causes warnings. Its log goes to functions in comm/grammar/grammar_compiler.cc. Its
# parser and its matcher are compiled from copies that count their work (comm/grammar/parsing_budget.h). Its reader of
# rules is compiled from a copy that refuses rules whose work would not be counted. The sources themselves stay
# unchanged.
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/deploy/fetch-xgrammar OUTPUT_VARIABLE XGRAMMAR_SOURCES
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(QUIRE_XGRAMMAR_SOURCES ${XGRAMMAR_SOURCES} CACHE INTERNAL "For deploy/make-wheel")
file(GLOB_RECURSE XGRAMMAR_FILES ${XGRAMMAR_SOURCES}/cpp/*.cc)
list(FILTER XGRAMMAR_FILES EXCLUDE REGEX "/cpp/(tvm_ffi/|earley_parser.cc|grammar_matcher.cc|grammar_parser.cc)")

# Inserts `code` before or after the text `at`, which must occur once in the variable SOURCE. So a version of xgrammar
# in which that text has moved does not compile before a developer has checked it.
macro(xgrammar_insert where at code)
  string(FIND "${SOURCE}" "${at}" FIRST)
  string(FIND "${SOURCE}" "${at}" LAST REVERSE)
  if(FIRST EQUAL -1 OR NOT FIRST EQUAL LAST)
    message(FATAL_ERROR "cmake/QuireXgrammar.cmake: xgrammar's ${FILE} does not have this text exactly once, where its "
                        "work is counted:\n${at}")
  endif()
  if("${where}" STREQUAL "BEFORE")
    string(REPLACE "${at}" "${code}${at}" SOURCE "${SOURCE}")
  else()
    string(REPLACE "${at}" "${at}${code}" SOURCE "${SOURCE}")
  endif()
endmacro()

# Writes SOURCE as a copy of FILE that includes the budget. The copy is written only when it changes.
macro(xgrammar_counted)
  set(COPY ${CMAKE_CURRENT_BINARY_DIR}/xgrammar/counted_${FILE})
  file(CONFIGURE OUTPUT ${COPY} CONTENT "#include \"comm/grammar/parsing_budget.h\"\n${SOURCE}" @ONLY)
  list(APPEND XGRAMMAR_FILES ${COPY})
endmacro()

# Counts the parser's loops: expanded states, tried edges, and rows of parents. An entry of a row counts as a quarter:
# rows of thousands of entries are read from memory, in 3 to 6 ns per entry.
set(FILE earley_parser.cc)
file(READ ${XGRAMMAR_SOURCES}/cpp/${FILE} SOURCE)
xgrammar_insert(BEFORE "  // Check if the rule has a corresponding FSM.\n" "  quire::ChargeParsing(1);\n")
xgrammar_insert(BEFORE "  for (const auto& [ref_id, parent_state] : parent_states_map) {\n"
                "  quire::ChargeParsing(parent_states_map.size() / 4);\n")
xgrammar_insert(AFTER "    if (ref_id != state.rule_id) {\n      continue;\n    }\n" "    quire::ChargeParsing(1);\n")
foreach(indent "      " "        ")
  xgrammar_insert(AFTER "\n${indent}const auto in_vec = [&](const ParserState& state_) {\n"
                  "${indent}  quire::ChargeParsing(1 + rule_id_to_completable_states_.Back().size() / 4);\n")
  xgrammar_insert(BEFORE "\n${indent}std::vector<std::pair<int32_t, ParserState>> to_added_states;"
                  "\n${indent}quire::ChargeParsing(parent_states_map.size() / 4);")
endforeach()
foreach(advance "AdvanceFsm(const ParserState& state, const uint8_t ch)"
        "ScanAtomicToken(const ParserState& state, int32_t token_id)")
  xgrammar_insert(AFTER "void EarleyParser::${advance} {\n"
                  "  if (state.rule_id != -1) {\n    quire::ChargeParsing(1 + \
grammar_->per_rule_fsms[state.rule_id]->GetFsm().GetFsm().GetEdges(state.element_id).size() / 4);\n  }\n")
endforeach()
xgrammar_insert(BEFORE "    for (const auto& [ref_rule_id, parent_state] : parent_states) {\n"
                "    quire::ChargeParsing(1 + parent_states.size() / 4);\n")
xgrammar_counted()

# Counts the matcher's work. Each state of a mask is looked up, which takes 0.8 us, and adds lists of tokens. The number
# of kept states is known once a token is taken.
set(FILE grammar_matcher.cc)
file(READ ${XGRAMMAR_SOURCES}/cpp/${FILE} SOURCE)
xgrammar_insert(BEFORE "    const auto& uncertain_indices = adaptive_token_mask.uncertain_indices;\n"
                "    quire::ChargeParsing(64 + (adaptive_token_mask.uncertain_indices.size() + \
adaptive_token_mask.rejected_indices.size() + adaptive_token_mask.accepted_indices.size()) / 16);\n")
xgrammar_insert(AFTER "  const auto& vocab = tokenizer_info_.GetSortedDecodedVocab();\n"
                "  quire::ChargeParsing(vocab.size());\n")
xgrammar_insert(AFTER "  bool FinishAccept(bool consumed_past_deadline) {\n"
                "    quire::ReportKeptStates(int64_t{\
scanable_state_history_.indptr()[scanable_state_history_.size()]} + \
rule_id_to_completable_states_.indptr()[rule_id_to_completable_states_.size()]);\n")
xgrammar_counted()

# Refuses rules with attributes, `name[max_chars=5] ::= ...`. Budgets would go through the whole vocabulary for every
# mask, and other attributes have no effect here.
set(FILE grammar_parser.cc)
file(READ ${XGRAMMAR_SOURCES}/cpp/${FILE} SOURCE)
xgrammar_insert(BEFORE "      if (has_capture && capture_value.empty()) {\n"
                "      ReportLexerError(\"attributes of rules, in brackets before ::=, are not supported\", \
start_line, start_column);\n")
xgrammar_counted()

# The parser, the matcher and the compiler of masks run for every token. The other sources read a grammar once, in
# milliseconds. Developers do not change any of them, so several are always compiled together.
set(XGRAMMAR_READERS ${XGRAMMAR_FILES})
set(XGRAMMAR_PER_TOKEN
    "/(counted_earley_parser|counted_grammar_matcher|grammar_compiler|compiled_grammar|fsm|tokenizer_info)[.]cc$")
list(FILTER XGRAMMAR_FILES INCLUDE REGEX ${XGRAMMAR_PER_TOKEN})
list(FILTER XGRAMMAR_READERS EXCLUDE REGEX ${XGRAMMAR_PER_TOKEN})
add_library(xgrammar_readers OBJECT EXCLUDE_FROM_ALL ${XGRAMMAR_READERS})
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${XGRAMMAR_FILES} $<TARGET_OBJECTS:xgrammar_readers>)
target_compile_options(xgrammar_readers PRIVATE $<$<CONFIG:Release>:-O1>)
# This source defines a constant with the same name as another source.
set_source_files_properties(${XGRAMMAR_SOURCES}/cpp/converter_ext/minimax_m3.cc PROPERTIES
                            SKIP_UNITY_BUILD_INCLUSION ON)
foreach(part xgrammar xgrammar_readers)
  set_target_properties(${part} PROPERTIES UNITY_BUILD ON)
  target_include_directories(${part} SYSTEM PUBLIC ${XGRAMMAR_SOURCES}/include ${XGRAMMAR_SOURCES}/3rdparty/picojson
                             ${XGRAMMAR_SOURCES}/3rdparty/dlpack/include)
  target_include_directories(${part} PRIVATE ${CMAKE_SOURCE_DIR} ${XGRAMMAR_SOURCES}/cpp)
  target_compile_definitions(${part} PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
                             XGRAMMAR_LOG_CUSTOMIZE=1)
  target_compile_options(${part} PRIVATE -w)
  target_compile_features(${part} PRIVATE cxx_std_17)
endforeach()
target_link_libraries(xgrammar PUBLIC Threads::Threads)
