"""Mistakes in what clients send and get."""
from mutant import Mutant


def fields(test):
    return ["e2e/fields_test:" + test]


def flags(test):
    return ["e2e/flags_test:" + test]


def overload(test):
    return ["e2e/overload_test:" + test]


def limits(test):
    return ["e2e/limits_test:" + test]


REQUEST, GENERATION, ANSWER = "coordinator/api/requests/openai_request.cc", "coordinator/api/openai/running_call.cc", "coordinator/api/openai/answer_sending.cc"
DATA, OPTIONS = "coordinator/api/openai/data_port.cc", "coordinator/cli/options.cc"
FLAGS_TABLE, READER = "coordinator/cli/serve_flags.cc", "comm/topology/topology_reader.cc"
TIMER, CALLS, REPLICAS = "coordinator/api/openai/call_timer.cc", "coordinator/metrics/call_metrics.cc", "coordinator/metrics/replica_metrics.cc"
SETTINGS, CONNECTION, SERVER = "coordinator/api/admin/settings_report.cc", "coordinator/api/http/connection.cc", "coordinator/api/http/http_server.cc"
TYPES, SIZING = "coordinator/api/http/http_types.h", "coordinator/cluster/launch/engine_settings.cc"
PLACES = "coordinator/api/http/connection_places.cc"
PREPARER, EXCHANGE, BUDGET = "coordinator/api/openai/call_preparer.cc", "coordinator/api/openai/exchange.h", "coordinator/api/http/byte_budget.cc"
POOL, WRITING, MESSAGES = "coordinator/api/http/work_pool.cc", "coordinator/api/http/connection_writing.cc", "coordinator/api/requests/chat_messages.cc"

DIALECTS = [
    Mutant("messages: turns of one role are not joined", "coordinator/api/requests/messages_request.cc", 'if (role_ == role) gap_ = "\\n";', "",
           ["coordinator/messages_request_test", "e2e/messages_test:FormTest.test_conversations_become_those_of_chat"]),
    Mutant("messages: errors of tools are told as results", "coordinator/api/requests/messages_request.cc", 'if (block.Flag("is_error", false))', "if (false)",
           ["coordinator/messages_request_test"]),
    Mutant("messages: cached tokens are counted twice", "coordinator/api/openai/messages_answer.cc", "usage.prompt_tokens - usage.cached_tokens}", "usage.prompt_tokens}",
           ["e2e/messages_test:FormTest.test_cached_tokens_are_counted_apart"]),
    Mutant("messages: an answer that the context cut looks as if it was to be that long", "coordinator/api/openai/call_serving.cc",
           "max_tokens < prepared.call.max_tokens.value_or(max_tokens)", "false", ["e2e/messages_test:FormTest.test_the_reasons_to_stop"]),
    Mutant("messages: errors stay in OpenAI's form", "coordinator/api/http/connection_writing.cc", "response.status >= 400 && service_.restate", "false",
           ["e2e/messages_test:FormTest.test_what_cannot_be_done_is_refused_by_name"]),
    Mutant("responses: another key finds an answer", "coordinator/api/openai/response_pages.cc", "store_.Find(client, id)", 'store_.Find("alice", id)',
           ["e2e/responses_test:StoreTest.test_nobody_finds_what_another_key_was_answered"]),
    Mutant("responses: instructions are kept for the next request", "coordinator/api/requests/responses_request.cc",
           'request.terms.store = body.Flag("store", true);', 'request.terms.conversation.insert(1, R"({"role":"system","content":"x"},)");',
           ["coordinator/responses_test", "e2e/responses_test:StoreTest.test_an_answer_goes_on_from_an_earlier_one_without_its_instructions"]),
    Mutant("responses: an answer is kept without its text", "coordinator/api/openai/responses_answer.cc",
           "if (item.kind == AnswerPart::kContent) content += item.text;", "", ["coordinator/responses_test"]),
    Mutant("responses: the newest answers go first", "coordinator/api/openai/response_store.cc", "own.entries.splice(own.entries.end(), own.entries, found->second);", "",
           ["coordinator/responses_test"]),
    Mutant("responses: whoever comes last loses its answers", "coordinator/api/openai/response_store.cc", "const auto largest = Largest();", "const auto largest = account;",
           ["coordinator/responses_test"]),
    Mutant("keys: x-api-key opens the admin port", "coordinator/api/access/authenticate.cc", "options_.kind != KeyKind::kApi", "false",
           ["e2e/messages_test:KeysTest"]),
]

USAGE = [
    Mutant("usage: EOS is not counted", GENERATION, "if (reason == FinishReason::kStop && !choice.stopped)", "if (false)",
           fields("CompletionTest.test_eos_ends_the_text_and_counts")),
    Mutant("usage: cached tokens are counted for every choice", "coordinator/core/engine.cc",
           "const bool begins = sequence.choice == 0 && sequence.num_generated() == 1;", "const bool begins = sequence.num_generated() == 1;",
           fields("CompletionTest.test_n_choices_are_counted_all_and_their_prompt_once")),
    Mutant("usage: the prompt is counted for every choice", PREPARER, "prepared.prompt_tokens += prompt.size();",
           "prepared.prompt_tokens += prompt.size() * static_cast<size_t>(call.n);",
           fields("CompletionTest.test_n_choices_are_counted_all_and_their_prompt_once")),
    Mutant("usage: a stream's chunks have none", EXCHANGE, "call.continuous_usage ? usage.ToJson() : Json()", "Json()",
           fields("CompletionTest.test_stream_options_add_usage")),
]

FIELDS = [
    Mutant("presence and frequency are exchanged", REQUEST,
           'real("presence_penalty", -2, 2, s.presence_penalty);\n  real("frequency_penalty", -2, 2, s.frequency_penalty);',
           'real("presence_penalty", -2, 2, s.frequency_penalty);\n  real("frequency_penalty", -2, 2, s.presence_penalty);',
           fields("CompletionTest.test_presence_penalty_counts_once")),
    Mutant("min_p is taken for top_p", REQUEST, 'real("min_p", 0, 1, s.min_p);', 'real("min_p", 0, 1, s.top_p);',
           fields("CompletionTest.test_min_p_keeps_what_has_that_part_of_the_best")),
    Mutant("top_k is ignored", REQUEST, "s.top_k = *k < 0 ? 0 : static_cast<int32_t>(*k);", "s.top_k = 0 * static_cast<int32_t>(*k);",
           fields("CompletionTest.test_top_k_keeps_so_many")),
    Mutant("stop_token_ids are ignored", GENERATION, "request->limits.stop_token_ids = call.stop_token_ids;", "",
           fields("CompletionTest.test_stop_token_ids_end_the_text_and_count")),
    Mutant("echo is ignored", ANSWER, "if (!echo.empty()) prompts[index]->text = echo[index];", "", fields("CompletionTest.test_echo_puts_the_prompt_before_the_text")),
    Mutant("answers without a text come at their end", "coordinator/api/openai/running_call.cc", "!out.text.empty() || out.stopped || !detokenizes_", "!out.text.empty() || out.stopped",
           fields("CompletionTest.test_detokenize_false_leaves_the_text_out")),
    Mutant("echo is ignored by streams", ANSWER, "call.chat || !exchange.echo.empty() || call.return_token_ids", "call.chat || call.return_token_ids",
           fields("CompletionTest.test_echo_puts_the_prompt_before_the_text")),
    Mutant("fields: bad words are told behind a space alone", "coordinator/api/openai/call_preparer.cc",
           "if (!alone.empty()) words.push_back(alone);", "", fields("CompletionTest.test_bad_words_never_come_to_stand_in_the_text")),
    Mutant("fields: bad words look at the prompt", "worker/sampling/draw.cc",
           "std::span(s.tokens).subspan(static_cast<size_t>(s.num_prompt_tokens))", "std::span(s.tokens)",
           fields("CompletionTest.test_bad_words_never_come_to_stand_in_the_text")),
    Mutant("fields: allowed tokens are not all that is drawn", "worker/sampling/draw.cc",
           "(token)]);\n    std::ranges::fill(logits, kNever);", "(token)]);", fields("CompletionTest.test_allowed_token_ids_are_all_that_is_drawn")),
    Mutant("fields: the first tokens of a long prompt are kept", "coordinator/api/openai/call_preparer.cc",
           "prompt.erase(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(kept))", "prompt.resize(kept)",
           fields("CompletionTest.test_truncate_prompt_tokens_keeps_the_last_ones")),
    Mutant("fields: stop strings end a text before min_tokens", "coordinator/api/openai/running_call.cc",
           "choice.num_tokens > min_tokens_", "true", fields("CompletionTest.test_stop_strings_count_after_min_tokens")),
    Mutant("prompt scores: max_tokens 0 delivers a token", "coordinator/api/openai/running_call.cc", "    if (only_prompt_) {\n", "    if (false) {\n",
           ["e2e/prompt_scores_test:FormsTest.test_max_tokens_0_is_for_the_prompt_alone"]),
    Mutant("prompt scores: offsets after an echo begin anew", "coordinator/api/openai/running_call.cc",
           "choice.num_characters = echoes_ ? prompt_->num_characters() : 0;", "choice.num_characters = 0;",
           ["e2e/prompt_scores_test:FormsTest.test_every_choice_and_prompt_has_its_own"]),
    Mutant("prompt scores: the second prompt's are the first's", ANSWER,
           "*prompts[static_cast<size_t>(event->choice / call.num_delivered())]", "*prompts.front()",
           ["e2e/prompt_scores_test:FormsTest.test_every_choice_and_prompt_has_its_own"]),
    Mutant("prompt scores: streams bring them to one choice alone", ANSWER,
           "event->of_prompt && i < call.num_delivered()", "false",
           ["e2e/prompt_scores_test:FormsTest.test_streams_bring_the_prompt_first_and_say_the_same"]),
    Mutant("prompt scores: a rank counts from 0", "kernels/cpu/sampling.cc",
           "static_cast<int32_t>(1 + higher + ties)", "static_cast<int32_t>(higher + ties)",
           ["kernels/sampling_test:*RanksAre*"]),
    Mutant("priority goes the other way", GENERATION, "request->priority = call.priority;", "request->priority = -call.priority;",
           fields("PriorityTest")),
    Mutant("skip_special_tokens is ignored", GENERATION, "Detokenizer(tokenizer, call.skip_special_tokens, ", "Detokenizer(tokenizer, true, ",
           fields("CompletionTest.test_skip_special_tokens_hides_them_and_counts_them")),
    Mutant("add_generation_prompt is ignored", REQUEST, 'fields.Flag("add_generation_prompt", !call.continue_final_message)', "!call.continue_final_message",
           fields("ChatTest.test_add_generation_prompt_opens_the_answer")),
    Mutant("add_special_tokens is ignored", PREPARER, "EncodePrompt(*text, call.add_special_tokens, bounds)", "EncodePrompt(*text, true, bounds)",
           fields("SpecialTokenTest")),
    Mutant("include_stop_str_in_output is ignored", GENERATION, "StopMatcher(call.stop, call.include_stop)", "StopMatcher(call.stop, false)",
           fields("CompletionTest.test_include_stop_str_in_output_leaves_it_there")),
    Mutant("logit_bias has the other sign", "coordinator/api/requests/token_fields.cc", "emplace_back(std::stoi(key), value.get<float>())",
           "emplace_back(std::stoi(key), -value.get<float>())", fields("CompletionTest.test_logit_bias_moves_both_ways")),
    Mutant("min_tokens ban one token more", "worker/sampling/draw.cc", "NumGenerated(s) < s.sampling.min_tokens", "NumGenerated(s) <= s.sampling.min_tokens",
           fields("CompletionTest.test_min_tokens_come_before_eos_and_stop_tokens")),
    Mutant("min_tokens of 1 ban nothing", GENERATION, "if (call.sampling.min_tokens > 0)", "if (call.sampling.min_tokens > 1)",
           fields("CompletionTest.test_min_tokens_come_before_eos_and_stop_tokens")),
    Mutant("text_offset counts bytes", GENERATION, "choice.num_characters += NumCharacters(text);", "choice.num_characters += text.size();",
           fields("CompletionTest.test_text_offset_counts_characters_also_of_streams")),
    Mutant("text_offset is where a token ends", GENERATION, "token.top, text_offset}", "token.top, text_offset + 1}",
           fields("CompletionTest.test_logprobs_are_the_models_own_and_say_where_tokens_stand")),
    Mutant("top_logprobs have equal keys", "coordinator/api/openai/openai_response.cc", "if (IsValidUtf8(bytes)) return bytes;", "return bytes;",
           fields("CompletionTest.test_parts_of_characters_are_named_by_their_bytes")),
    Mutant("ignore_eos is ignored", GENERATION, "if (!call.ignore_eos) {", "if (true) {", fields("CompletionTest.test_ignore_eos_makes_it_text")),
    Mutant("cache_salt is ignored", GENERATION, "request->cache_salt = CacheSalt(call.client, call.cache_salt);",
           'request->cache_salt = CacheSalt(call.client, "");', fields("CompletionTest.test_cache_salt_parts_what_is_shared")),
    Mutant("deadline_seconds are ignored", GENERATION, "request->limits.max_seconds = call.deadline_seconds;", "",
           fields("CompletionTest.test_deadline_seconds_end_a_request")),
    Mutant("best_of is forgotten where answers are kept", ANSWER, "a.mean_logprob > b.mean_logprob", "a.mean_logprob < b.mean_logprob",
           fields("CompletionTest.test_best_of_counts_what_it_dropped")),
    Mutant("max_tokens go before max_completion_tokens", REQUEST, '{"max_completion_tokens", "max_tokens"}', '{"max_tokens", "max_completion_tokens"}',
           fields("CompletionTest.test_max_completion_tokens_go_before_max_tokens")),
    Mutant("length_penalty is ignored", REQUEST, 'static_cast<float>(fields.Number("length_penalty", -10, 10).value_or(1))',
           'static_cast<float>(fields.Number("length_penalty", -10, 10) ? 1 : 1)', fields("BeamTest.test_beams_are_those_of_hf")),
    Mutant("early_stopping: never is no", REQUEST, '*early == "never" ? EarlyStopping::kNever', '*early == "never" ? EarlyStopping::kNo',
           fields("BeamTest.test_beams_are_those_of_hf")),
]

TOKEN_METRICS = [
    Mutant("token metrics: a call's events are counted, not its tokens", TIMER, "finished_.generated_tokens += event.num_tokens;",
           "finished_.generated_tokens += 1;", fields("MetricsTest")),
    Mutant("token metrics: prompts and answers are exchanged", REPLICAS, "static_cast<double>(now.stats.prompt_tokens)",
           "static_cast<double>(now.stats.generated_tokens)", fields("MetricsTest")),
    Mutant("token metrics: computed tokens are taken for generated ones", REPLICAS,
           '"Tokens generated", static_cast<double>(now.stats.generated_tokens)', '"Tokens generated", static_cast<double>(now.stats.computed_tokens)', fields("MetricsTest")),
    Mutant("token metrics: the histogram of prompts shows answers", CALLS, "all.prompt_tokens.Observe(call.prompt_tokens);",
           "all.prompt_tokens.Observe(call.generated_tokens);", fields("MetricsTest")),
    Mutant("token metrics: a stream that was refused counts as aborted", ANSWER,
           "timer.OnEvent(*event);\n    if (!event->error.empty()) throw ErrorOf(*event);\n    ++accepted;",
           "if (!event->error.empty()) throw ErrorOf(*event);\n    ++accepted;", fields("RefusalMetricsTest")),
    Mutant("token metrics: hits of the prefix cache are its queries", REPLICAS, "const auto cached = static_cast<double>(now.stats.cached_tokens);",
           "const auto cached = static_cast<double>(now.stats.ended_prompt_tokens);", fields("MetricsTest")),
    Mutant("metrics: decode time begins with the request", CALLS, "*call.last_token - *call.first_token;", "*call.last_token - *call.begun;",
           ["e2e/metrics_test:CallTest.test_the_times_of_a_call_add_up"]),
    Mutant("metrics: the longest choice is the last one", TIMER, "finished_.longest_choice = std::max(finished_.longest_choice, choice.tokens);",
           "finished_.longest_choice = choice.tokens;", ["e2e/metrics_test:CallTest.test_the_longest_choice_counts"]),
    Mutant("metrics: the page for collectors is made at every request", "coordinator/api/admin/metrics_page.cc", "if (!when_ || now - *when_ > kFresh)",
           "if (true)", ["e2e/metrics_test:CollectorsTest.test_a_flood_of_questions_gets_one_page"]),
]

CLUSTER = [
    Mutant("worker group: what ranks say of grammars reaches nobody", "coordinator/cluster/group/worker_group.cc",
           "listener_->OnGrammarReady(rank, std::get<GrammarReady>(message));", "listener_->WhileWaiting();", ["coordinator/worker_group_test"]),
    Mutant("worker group: a wait goes on although the server stops", "coordinator/cluster/group/worker_group.cc",
           'if (Stopping()) roster_.Fail(LossCause::kStopping', 'if (false) roster_.Fail(LossCause::kStopping', ["coordinator/worker_group_test"]),
    Mutant("pools: other replicas' ranks on the host take no memory", "coordinator/cluster/launch/rank_hosts.cc",
           "OnThisHost(topology) ? count * topology.parallel.replicas : count", "OnThisHost(topology) ? count : count", ["coordinator/pool_sizing_test"]),
    Mutant("pools: swap space is counted by the smallest rank's blocks", "coordinator/cluster/launch/pool_sizing.cc",
           "for (const RankInfo& rank : ranks) per_block = std::max(per_block, rank.bytes_per_block);", "per_block = ranks[0].bytes_per_block;",
           ["coordinator/pool_sizing_test"]),
    Mutant("topology page: a rank that is not heard of is well", "coordinator/api/admin/replica_report.cc", "BeatAge(info, replica) > kLateBeat", "false",
           ["coordinator/replica_report_test"]),
    Mutant("blocks page: a block has its last owner alone", "coordinator/api/admin/block_report.cc", "owners[block].push_back(OwnerJson(owner));",
           "owners[block] = Json::array({OwnerJson(owner)});", ["coordinator/replica_report_test"]),
]

FLAGS = [
    Mutant("flag --block-size says how many blocks there are", FLAGS_TABLE, '.name = "--block-size", .key = "cache.block_size"',
           '.name = "--block-size", .key = "cache.num_blocks"', ["coordinator/options_test"]),
    Mutant("flag --swap-space counts bytes", FLAGS_TABLE, 'Scalar(plain ? text + "GiB" : text)', "Scalar(text)",
           ["coordinator/options_test"]),
    Mutant("flag --port is ignored", OPTIONS, "WithHostOrPort(t.server.listen, flags.host, flags.port)", "WithHostOrPort(t.server.listen, flags.host, {})",
           ["coordinator/options_test"]),
    Mutant("settings: the last of two flags for one key holds", READER, "if (holds(a.key, b.key) || holds(b.key, a.key))", "if (false)",
           ["coordinator/options_test"]),
    Mutant("topology: the seed is read and goes nowhere", READER, '  root.Integer("seed", t.seed);\n',
           '  root.Take("seed");\n', ["coordinator/options_test"]),
    Mutant("assignment: an unknown word becomes the first choice", "comm/wire/messages.cc",
           'if (!value) Fail("assignment: {} \\"{}\\" is none of {}", what, Text(text), fmt::join(NamesOf<E>(), ", "));\n  return *value;',
           "return value.value_or(E{});", ["comm/messages_test"]),
    Mutant("settings: what was asked for is told, not what is in force", SETTINGS, "engine.scheduler.max_step_tokens",
           "topology.scheduler.max_step_tokens", flags("PlainTest.test_settings_that_nobody_gave_are_the_documented_defaults")),
    Mutant("settings: the shape is that of the start", SETTINGS, '{"tensor_parallel_size", workers.shares.size()}',
           '{"tensor_parallel_size", topology.parallel.tensor}', flags("SmallTest.test_tensor_parallel_size")),
]

def tools(test):
    return ["e2e/tools_test:" + test]


PARSERS = ["coordinator/answer_parser_test"]
TOOLS = [
    Mutant("tools: marks are not held back", "coordinator/text/answers/step_parser.cc", "if (!at_end_) keep = std::max(keep, OverlapAtEnd(rest(), marks[i]));", "", PARSERS),
    Mutant("tools: escapes end strings", "coordinator/text/answers/json_scanner.cc", "if (c == '\\\\') expects_ = Expects::kEscape;", "", PARSERS),
    Mutant("tools: line breaks stay in strings", "coordinator/text/answers/step_parser.cc", "AppendInsideString(text[taken], piece);", "piece += text[taken];", PARSERS),
    Mutant("tools: functions that were not offered are called", "coordinator/text/answers/step_parser.cc", "if (tool_ == nullptr) return false;",
           "if (tool_ == nullptr) tool_ = &tools_->tools.front();", PARSERS),
    Mutant("tools: thoughts that the prompt opened are words", "coordinator/text/answers/reasoning_parser.cc",
           "if (start == ReasoningStart::kInside) state_ = State::kInside;", "", PARSERS),
    Mutant("tools: numbers stay text", "coordinator/text/answers/typed_values.cc", "return Json::accept(bare) ? bare : JsonString(text);", "return JsonString(text);", PARSERS),
    Mutant("tools: arguments are objects for everybody", "coordinator/text/chat_template.cc", "if (!traits.text_arguments) ParseArguments(call);", "ParseArguments(call);",
           ["coordinator/chat_template_test"]),
    Mutant("tools: tool_choice none shows them", "coordinator/text/answers/tool.h", "choice.mode != ToolChoice::kNone", "true", ["coordinator/openai_request_test"]),
    Mutant("tools: a named function is one of many", "coordinator/text/answers/call_grammar.cc", "use.choice.mode != ToolChoice::kNamed || use.choice.name == use.tools[i].name", "true",
           tools("ConstrainedTest.test_a_named_function_is_the_one")),
    Mutant("tools: control tokens are spelled out", "coordinator/text/vocabulary_of.cc", "if (by_id) unlike_text", "if (false) unlike_text", tools("ControlTokenTest")),
    Mutant("tools: control tokens do not reach the parser", "coordinator/text/detokenizer.cc", "&& !IsShown(token)", "", tools("ControlTokenTest")),
    Mutant("tools: the second of calls that should be one goes out", "coordinator/api/openai/chat_choice.cc", "(one_call_ && part.call > 0)", "false",
           tools("FreeTest.test_one_call_when_parallel_calls_are_off")),
    Mutant("tools: calls end with stop", "coordinator/api/openai/openai_response.cc", 'entry["finish_reason"] = "tool_calls";', "", tools("ConstrainedTest")),
]

LIMITS = [
    Mutant("limit: 1,025 messages", MESSAGES, "kMaxMessages = 1024", "kMaxMessages = 1025", limits("SizeTest.test_messages")),
    Mutant("limit: 21 log-probabilities", REQUEST, "kMaxLogprobs = 20", "kMaxLogprobs = 21", limits("SizeTest.test_logprobs")),
    Mutant("limit: 21 beams", REQUEST, "kMaxBeams = 20", "kMaxBeams = 21", limits("SizeTest.test_beams")),
    Mutant("limit: 301 logit biases", "coordinator/api/requests/token_fields.cc", "kMaxBiases = 300;", "kMaxBiases = 301;", limits("SizeTest.test_logit_biases")),
    Mutant("limit: 17 stop strings", REQUEST, 'fields.Texts("stop", 16, 1024)', 'fields.Texts("stop", 17, 1024)', limits("SizeTest.test_stop_strings")),
    Mutant("limit: stop strings of 1,023 bytes", REQUEST, 'fields.Texts("stop", 16, 1024)', 'fields.Texts("stop", 16, 1023)',
           limits("SizeTest.test_stop_strings")),
    Mutant("limit: 17 prompts", "coordinator/api/requests/openai_request.h", "max_prompts = 16", "max_prompts = 17", limits("SizeTest.test_prompts")),
    Mutant("limit: 129 choices", "coordinator/cli/serve.cc", "std::min(128, running)", "std::min(129, running)", limits("SizeTest.test_choices")),
    Mutant("unique items are promised", "coordinator/api/requests/schema_check.cc", "\"minItems\", \"maxItems\"}},", "\"minItems\", \"maxItems\", \"uniqueItems\"}},",
           ["coordinator/structured_output_test"]),
    Mutant("what ends a server that hangs outlives its threads", "coordinator/cli/bounded_end.cc", "::alarm(0);", "",
           ["coordinator/bounded_end_test"]),
    Mutant("JSON in a text has no bounds", "coordinator/api/requests/structured_output.cc", "(void)ParseJson(text, field, kClientJson);",
           "(void)ParseJson(text, field, {.max_depth = SIZE_MAX, .max_nodes = SIZE_MAX});", ["coordinator/structured_output_test"]),
    Mutant("escapes hide the name of a field", "coordinator/api/requests/structured_output.cc", 'return spells("\\\\") || ', "return ",
           ["coordinator/structured_output_test"]),
    Mutant("texts of bounded length hold control characters", "coordinator/api/requests/structured_output.cc", "WithoutLengths(schema).dump()",
           "schema.dump()", ["e2e/structured_output_test:ValidityTest"]),
    Mutant("limit: JSON depth 33", "coordinator/api/requests/json_fields.h", ".max_depth = 32", ".max_depth = 33", limits("SizeTest.test_json_depth")),
    Mutant("limit: 101 header fields", TYPES, "header_fields = 100", "header_fields = 101", limits("SizeTest.test_header_fields")),
    Mutant("limit: a head of one byte more", TYPES, "head_bytes = 16 << 10", "head_bytes = (16 << 10) + 1", limits("SizeTest.test_head")),
    Mutant("limit: a head that comes in packets has no end", CONNECTION, "bytes > limits_.head_bytes", "false", limits("SizeTest.test_head")),
    Mutant("limit: a target of one byte less", TYPES, "target_bytes = 8 << 10", "target_bytes = (8 << 10) - 1", limits("SizeTest.test_target")),
    Mutant("limit: a body of one byte more", TYPES, "body_bytes = Topology::Limits::kLargestBody", "body_bytes = Topology::Limits::kLargestBody + 1",
           limits("SizeTest.test_body")),
    Mutant("limit: the head has the idle connection's time", CONNECTION, "? limits_.chosen.idle_seconds : limits_.chosen.head_seconds",
           "? limits_.chosen.idle_seconds : limits_.chosen.body_seconds", limits("TimeTest.test_head") + limits("TimeTest.test_idle")),
    Mutant("limit: an idle connection has the head's time", CONNECTION, "? limits_.chosen.idle_seconds : limits_.chosen.head_seconds",
           "? limits_.chosen.head_seconds : limits_.chosen.head_seconds", limits("TimeTest.test_idle")),
    Mutant("limit: the body has the head's time", CONNECTION, "longest(limits_.chosen.body_seconds);", "longest(limits_.chosen.head_seconds);",
           limits("TimeTest.test_body")),
    Mutant("limit: writing has no end", WRITING, "patience(limits_.chosen.write_seconds);", "patience(3600);",
           limits("TimeTest.test_stalled_write")),
    Mutant("limit: what waits for a client is not bounded", "coordinator/api/openai/event_queue.h", "kMaxBytes = 256 << 10", "kMaxBytes = 256 << 20",
           limits("SizeTest.test_events_that_wait_for_a_client_that_reads_nothing")),
    Mutant("limit: one connection more", PLACES, "taken_ >= most_ &&", "taken_ > most_ &&",
           limits("WaitingTest.test_connections")),
    Mutant("limit: one connection more from an address", PLACES, "same->second >= most_per_address_", "same->second > most_per_address_", limits("AddressTest")),
    Mutant("limit: one descriptor fewer is left", SERVER, "kReservedDescriptors = 512", "kReservedDescriptors = 511", limits("DescriptorTest")),
    Mutant("limit: one request less may wait", DATA, "places_.RoomFor(client) < choices_to_come",
           "places_.RoomFor(client) <= choices_to_come", limits("WaitingTest.test_requests")),
    Mutant("limit: a key has one byte less", BUDGET, "account_->second.bytes + more > most", "account_->second.bytes + more >= most",
           limits("MemoryTest.test_of_all_and_of_one")),
    Mutant("limit: all have one byte less", BUDGET, "budget_->taken_ + more > budget_", "budget_->taken_ + more >= budget_",
           limits("MemoryTest.test_of_all_and_of_one")),
    Mutant("limit: a slow body has all its time", CONNECTION, "TimeFor(received, limits_.chosen.body_bytes_per_second, kBodyGrace, longest)", "longest",
           limits("RateTest.test_slow_body")),
    Mutant("limit: a slow reader has no least rate", WRITING, "std::min<Clock::duration>(patience, allowed)", "patience",
           limits("RateTest.test_slow_reader")),
    Mutant("overload: a finished answer keeps its place", EXCHANGE, "    Widen(0);\n", "", overload("SlowReaderTest.test_finished_answers_hold_no_place")),
    Mutant("overload: choices that can never run are told to wait", PREPARER, "prepared.num_sampled() > options_.most_choices", "false",
           overload("AnswerTest.test_what_can_never_fit_is_told_so")),
    Mutant("overload: large jobs take all threads", POOL, "job->large && num_large_ >= limits_.threads - 1", "false",
           ["coordinator/work_pool_test:WorkPoolTest.LargeJobsLeaveAThreadToSmallOnes"]),
    Mutant("overload: clients do not take turns", POOL, "turns_.splice(turns_.end(), turns_, turn);", "",
           ["coordinator/work_pool_test:WorkPoolTest.ClientsTakeTurnsWhateverOneOfThemQueued"]),
    Mutant("limit: the queue's seconds are the request's", SIZING, "options.max_wait_seconds = topology.limits.queue_seconds;",
           "options.max_wait_seconds = topology.limits.request_seconds;", limits("PatienceTest.test_in_the_queue")),
    Mutant("limit: a request has its default seconds", SIZING, "  options.max_request_seconds = topology.limits.request_seconds;\n", "",
           limits("PatienceTest.test_in_all")),
]

T = "coordinator/pooling_request_test:"
POOLING = [
    Mutant("embeddings: a vector without direction is divided by its length", "coordinator/api/openai/pooled_answer.cc", "  if (squares == 0) return;\n", "",
           [T + "*LengthOne*"]),
    Mutant("embeddings: base64 of the other alphabet", "coordinator/api/openai/pooled_answer.cc", "sodium_base64_VARIANT_ORIGINAL",
           "sodium_base64_VARIANT_URLSAFE", [T + "*Base64*"]),
    Mutant("scores: how likely no is", "coordinator/api/openai/pooled_answer.cc", "double{answer[0]} - answer[1]", "double{answer[1]} - answer[0]",
           [T + "*ByAnswer*"]),
    Mutant("reranking: the worst first", "coordinator/api/openai/pooled_answer.cc", "std::greater<>(), [&](size_t i)", "std::less<>(), [&](size_t i)",
           [T + "*Pieces*"]),
    Mutant("reranking: a query may be repeated without end", "coordinator/api/requests/pooling_request.cc", "repeated > kMostQueryBytes", "false",
           [T + "*OnePromptEach*"]),
    Mutant("fields: one that is null and unknown is refused", "coordinator/api/requests/known_fields.cc", "value.is_null() || IsKnownField", "IsKnownField",
           [T + "*ProbablyMeant*"]),
    Mutant("defaults: the model's penalty holds for beams", "coordinator/api/requests/openai_request.cc",
           '  if (!fields.Has("repetition_penalty")) s.repetition_penalty = 1;  // a default is for draws\n', "", [T + "*GoesBefore*"]),
]

BATCH = [
    Mutant("top: requests that wait come first", "coordinator/client/top_view.cc", "for (const bool runs : {true, false})", "for (const bool runs : {false, true})",
           ["e2e/top_test:PipeTest"]),
    Mutant("top: what strangers wrote speaks to the terminal", "coordinator/client/top_view.cc", "CutTo(WithoutControls(text), columns)", "CutTo(text, columns)",
           ["e2e/top_test:StrangerTest"]),
    Mutant("top: lines are as long as they like", "coordinator/client/top_view.cc", "line = CutTo(line, width)", "line = CutTo(line, line.size())",
           ["e2e/top_test:TerminalTest"]),
    Mutant("forecast: steps take no time behind others", "coordinator/plan/load_forecast.cc", "free_ = std::max(free_, now_) + seconds;", "free_ = now_ + seconds;",
           ["coordinator/load_forecast_test"]),
    Mutant("forecast: a prompt's chunks each draw", "coordinator/plan/load_forecast.cc", "const bool draws = known.computed == known.tokens;", "const bool draws = true;",
           ["coordinator/load_forecast_test"]),
    Mutant("forecast: whoever waits is never turned away", "coordinator/plan/load_forecast.cc", "engine_.ExpireOverdue(now_);", "", ["coordinator/load_forecast_test"]),
    Mutant("forecast: equal hashes are other tokens", "coordinator/plan/request_trace.cc", "(request.hashes[block])", "(request.hashes[block] ^ number)",
           ["coordinator/load_forecast_test"]),
    Mutant("batch: what was answered is asked again", "coordinator/client/batch_run.cc", "if (!answers_.answered().contains(entry.custom_id)) ", "",
           ["e2e/batch_test:StrangerTest.test_another_run_goes_on_with_what_is_left"]),
    Mutant("batch: a refusal counts as an answer", "coordinator/client/batch_file.cc", 'response.at("status_code") == 200', 'response.contains("status_code")',
           ["e2e/batch_test:StrangerTest.test_refusals_are_asked_for_again"]),
    Mutant("batch: what shall not be retried is", "coordinator/client/batch_run.cc", "answer.may_retry && ", "",
           ["e2e/batch_test:StrangerTest.test_what_has_no_room_now_is_tried_again"]),
]

MUTANTS = [*POOLING, *USAGE, *DIALECTS, *FIELDS, *TOKEN_METRICS, *FLAGS, *TOOLS, *LIMITS, *CLUSTER, *BATCH]
