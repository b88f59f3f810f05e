"""Planted bugs in the web pages and in the data that the pages read."""
from mutant import Mutant


def admin(test):
    return ["e2e/admin_pages_test:" + test]


def dashboard(test):
    return ["e2e/dashboard_test:" + test]


def chat(test):
    return ["e2e/chat_page_test:" + test]


def conversations(test):
    return ["e2e/chat_conversations_test:" + test]


def text(test):
    return ["e2e/chat_text_test:" + test]


FEED, STREAM, PAGES = "coordinator/cluster/group/event_feed.cc", "coordinator/api/admin/event_stream.cc", "coordinator/web/web_pages.cc"
WEB = "coordinator/web/pages/"

MUTANTS = [
    Mutant("events: one too many is called lost", FEED, "batch.lost = oldest - last - 1;", "batch.lost = oldest - last;", ["coordinator/event_feed_test:*ASlowReaderLost*"]),
    Mutant("events: sums of guesses hold requests up", FEED, "      return std::nullopt;  // totals", "      return EventKind::kRequestHeld;  // totals", ["coordinator/event_feed_test:*TotalsOfGuessed*"]),
    Mutant("events: there is no rate", FEED, "if (allowance.events < 1) {", "if (allowance.events < -1e9) {", ["coordinator/event_feed_test:*LimitsTheRate*"]),
    Mutant("events: readers that left keep their place", STREAM, "~Reader() { --readers_; }", "~Reader() {}",
           admin("EventsTest.test_event_readers_are_limited_to_16_and_block_no_request_when_they_do_not_read")),
    Mutant("requests: the client does not count", "coordinator/api/admin/request_report.cc", "if (!filter_.any_client &&", "if (false &&",
           admin("RequestsTest.test_requests_page_lists_running_and_waiting_requests_with_the_reason")),
    Mutant("block map: held blocks are cached ones, too", "coordinator/api/admin/block_map.cc", "blocks.pool().ref_count(id) == 0 &&", "",
           admin("RequestsTest.test_block_map_agrees_with_the_list_of_blocks")),
    Mutant("query: a name may come twice", "coordinator/api/requests/query_fields.cc", "if (!fields_.emplace(name, value).second)", "if (fields_.insert_or_assign(name, value); false)",
           ["coordinator/query_fields_test:*NameTheWrongField*"]),
    Mutant("pages: scripts of anywhere", PAGES, "script-src 'self'", "script-src *", admin("FilesTest.test_page_files_need_no_key_and_admin_data_does")),
    Mutant("pages: both ports serve both", PAGES, "const bool own = ", "const bool own = true || ", admin("FilesTest.test_page_files_need_no_key_and_admin_data_does")),
    Mutant("dashboard: the block beside the pointer", WEB + "dashboard/block_map.js", "row * this.columns + column + 1", "row * this.columns + column",
           dashboard("RequestsTest.test_dashboard_shows_a_requests_row_and_its_blocks")),
    Mutant("dashboard: blocks of two are not shared", WEB + "dashboard/ownership.js", "if (this.holders[id] > 1) ++this.counts.shared;",
           "if (this.holders[id] > 3) ++this.counts.shared;", dashboard("RequestsTest.test_dashboard_shows_which_requests_share_a_block")),
    Mutant("dashboard: all blocks pale", WEB + "dashboard/block_map.js", "this.highlight >= 0 && owner[id] !== this.highlight", "this.highlight >= 0",
           dashboard("RequestsTest.test_block_map_dims_blocks_of_other_requests_when_the_pointer_is_on_a_request")),
    Mutant("dashboard: nothing is asked before an abort", WEB + "dashboard/controls.js", "if (await confirmed(title, text)) await", "await",
           dashboard("RequestsTest.test_dashboard_filters_requests_shows_details_and_aborts_one")),
    Mutant("dashboard: pause asks nobody", WEB + "dashboard/controls.js", 'await this.#ask("Pause", "No request goes on until somebody resumes; new ones are taken and wait.", "/admin/pause", {},', 'await this.#post("/admin/pause", {},',
           dashboard("ControlsTest.test_control_buttons_pause_resume_and_drain_the_server")),
    Mutant("history: it has no end", "coordinator/metrics/history.cc", "if (rows_.size() > kRows) rows_.pop_front();", "", ["coordinator/history_test"]),
    Mutant("history: percentiles of all that ever came", "coordinator/metrics/history.cc", "const uint64_t old = bucket < before.size() ? before[bucket].at_most : 0;", "const uint64_t old = 0;",
           ["coordinator/history_test"]),
    Mutant("dashboard: unseen words escape", WEB + "dashboard/dashboard.css", ".scroll { position: relative; overflow", ".scroll { overflow",
           dashboard("KeyboardAndEyesTest.test_dashboard_never_scrolls_sideways_at_any_width")),
    Mutant("dashboard: the state of a server that is gone", WEB + "dashboard/main.js", 'this.#pill(error.status === 0 ? "no answer" : "unknown", "bad");', "",
           dashboard("ServerGoneTest.test_dashboard_says_that_its_data_is_old_when_the_server_is_gone")),
    Mutant("dashboard: rows below a fold are one off", WEB + "dashboard/rows.js", "const row = Math.floor((id - 1) / columns);", "const row = Math.floor(id / columns);",
           dashboard("LargeTest.test_block_map_grows_with_the_blocks_in_use")),
    Mutant("dashboard: faint words", WEB + "shared/base.css", "--muted: #585c64;", "--muted: #9a9ea6;",
           dashboard("KeyboardAndEyesTest.test_dashboard_passes_axe_in_both_themes")),
    Mutant("sign-in: the key stays", WEB + "shared/session.js", "else sessionStorage.removeItem(this.storageName);", "",
           dashboard("SignInTest.test_dashboard_shows_only_the_sign_in_until_a_token_is_given")),
    Mutant("chat: stop does nothing", WEB + "chat/chat.js", '$("stop").addEventListener("click", () => this.stop());', "", chat("ChatTest.test_chat_page_streams_an_answer_and_stops_it")),
    Mutant("chat: the temperature is not sent", WEB + "chat/settings.js", 'if ($(id).value !== "") body', 'if ($(id).value > 0) body', chat("ChatTest.test_chat_page_shows_the_answers_of_the_api")),
    Mutant("chat: another token's probabilities", WEB + "chat/token_view.js", "token.element === event.target)", "token.element === event.target) + 1",
           chat("ChatTest.test_chat_page_shows_token_probabilities_by_pointer_and_keyboard")),
    Mutant("chat: an answer goes into what is shown", WEB + "chat/chat.js", "const shown = this.conversation === conversation, came", "const shown = true, came",
           conversations("AnswerBelongsTest.test_a_question_left_before_its_answer_began_stays_in_its_conversation")),
    Mutant("chat: a new chat lets the old answer go on", WEB + "chat/chat.js", "  open(conversation) {\n    this.stop();", "  open(conversation) {",
           conversations("AnswerBelongsTest.test_new_chat_during_an_answer_begins_an_empty_conversation")),
    Mutant("chat: a deleted conversation comes back", WEB + "chat/conversations.js", "    if (this.deleted.has(conversation.id)) return true;\n", "",
           conversations("AnswerBelongsTest.test_a_conversation_deleted_during_its_answer_remains_deleted")),
    Mutant("chat: panels open where nobody looks", WEB + "chat/chat.css", "position: fixed; z-index: 3; top: var(--head, 3.6rem);", "position: static;",
           conversations("WindowTest.test_panels_open_in_view_when_a_phone_is_scrolled_far_down")),
    Mutant("chat: panels lie over each other", WEB + "chat/chat.js", "if (open) this.#closeCovering();", "",
           conversations("WindowTest.test_panels_open_in_view_when_a_phone_is_scrolled_far_down")),
    Mutant("chat: tables break words", WEB + "chat/text.css", "font-size: 0.93em; overflow-wrap: normal;", "font-size: 0.93em;",
           conversations("WindowTest.test_words_in_tables_stay_whole_on_a_phone")),
    Mutant("chat: links lead anywhere", WEB + "chat/elements.js", "if (!LEADS_OUT.test(address) || !URL.canParse(address))", "if (false)",
           text("TextTest.test_markup_in_a_models_answer_is_never_active")),
    Mutant("chat: hard texts cost what they cost", WEB + "chat/reader.js", "return left > 0 ? false : undefined;", "return false;",
           text("TextTest.test_long_answer_is_parsed_in_short_pieces_with_bounded_work")),
    Mutant("chat: the whole answer is read at once", WEB + "chat/markdown.js", "const WINDOW = 8000;", "const WINDOW = 8000000;",
           text("TextTest.test_long_answer_is_parsed_in_short_pieces_with_bounded_work")),
    Mutant("chat: an answer may have any number of elements", WEB + "chat/markdown.js", "MOST_ELEMENTS = 30000;", "MOST_ELEMENTS = 30000000;",
           text("TextTest.test_long_answer_is_parsed_in_short_pieces_with_bounded_work")),
    Mutant("chat: the rest of a cut table has no head", WEB + "chat/markdown.js", '? "" : headOf(read.tokens.at(-1));', '? "" : "";',
           text("TextTest.test_markdown_blocks_longer_than_a_parsed_piece_keep_their_form")),
    Mutant("chat: names of links are not explained afterwards", WEB + "chat/markdown.js", "    if (whole) yield* this.#explainNames();\n", "",
           text("TextTest.test_answer_that_came_in_pieces_looks_like_the_whole_answer")),
]
