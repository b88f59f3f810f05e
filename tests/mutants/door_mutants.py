"""Planted bugs in authentication, in error messages to clients, and in logs."""
from mutant import Mutant


def signs(test):
    return ["e2e/signs_test:" + test]


def tls(test):
    return ["e2e/tls_test:" + test]


def logs(test):
    return ["e2e/logs_test:" + test]


AUTHENTICATE, CONNECTION, END = "coordinator/api/access/authenticate.cc", "coordinator/api/http/connection.cc", "coordinator/api/http/connection_end.cc"
GENERATION, ERROR, ROUTES = "coordinator/api/openai/running_call.cc", "coordinator/api/requests/api_error.cc", "coordinator/api/http/routes.cc"
NETWORK, PLACES = "coordinator/cluster/launch/private_network.cc", "coordinator/api/http/connection_places.cc"

MUTANTS = [
    Mutant("sign: what an operator ended may be sent again", GENERATION, "error != RequestError::kNoRoom && error != RequestError::kWorkersLost",
           "error == RequestError::kNoNumbers", signs("SignsTest.test_aborted_request_is_marked_as_not_to_be_retried")),
    Mutant("sign: whoever shall not retry is told when to", ERROR, "else if (error.status == 503 || error.status == 429)", "if (error.status >= 410)",
           signs("SignsTest.test_exceeded_deadline_is_marked_as_not_to_be_retried")),
    Mutant("sign: what is too long has no code", ERROR, 'error.code = "context_length_exceeded";', "", signs("SignsTest.test_too_long_prompts_have_the_error_code_and_words_of_openai")),
    Mutant("sign: 405 does not say what is allowed", ROUTES, 'response.headers.emplace_back("Allow", allow);', "", signs("SignsTest.test_wrong_method_gets_405_with_the_allowed_methods")),
    Mutant("sign: a request's own id is lost", CONNECTION, "!wish.empty()", "wish.empty()", signs("SignsTest.test_every_answer_has_a_request_id")),
    Mutant("browsers: every origin is allowed", AUTHENTICATE, 'allowed == "*" ||', "true ||", signs("BrowserTest.test_other_origins_and_hosts_are_refused")),
    Mutant("browsers: names are not looked at", AUTHENTICATE, "boost::beast::iequals(allowed, name)", "true", signs("BrowserTest.test_other_origins_and_hosts_are_refused")),
    Mutant("browsers: a page may not read answers", AUTHENTICATE, 'headers.emplace_back("Access-Control-Allow-Origin", origin);', "",
           signs("BrowserTest.test_allowed_origin_may_read_answers_streams_and_errors")),
    Mutant("keys: after SIGHUP a token of the admin port is a key", AUTHENTICATE, "CheckKeysDiffer(keys, other.keys());", "",
           ["coordinator/authenticate_test:*Keys_AreRefused_WhenOneOpensBothPorts"]),
    Mutant("scopes: all tokens may control", AUTHENTICATE, "reads ? key->may_read : key->may_post", "reads ? key->may_read : true",
           logs("LogsTest.test_admin_token_without_the_scope_gets_403_that_names_the_scope")),
    Mutant("head: folded lines are joined", CONNECTION, "if (folded) co_return", "if (false) co_return", ["e2e/http_test:HttpTest.test_folded_header_lines_are_refused"]),
    Mutant("head: HTTP/1.0 is told to continue", CONNECTION, "parser.get().version() == 11 &&", "", ["e2e/http_test:HttpTest.test_http_10_client_gets_no_100_continue"]),
    Mutant("connections: IPv6 by whole addresses", "coordinator/api/http/network_turns.cc", "PrefixOf(v6, 8)", "address", ["coordinator/handshake_pace_test:NetworkOfTest*"]),
    Mutant("places: nobody gives way", PLACES, "!MakeRoomFor(TurnOf(from))", "true", ["coordinator/connection_places_test"]),
    Mutant("places: whoever came last gives way", PLACES, "silent.front()", "silent.back()", ["coordinator/connection_places_test"]),
    Mutant("places: any network gives way", PLACES, "networks_.at(by_silence_.rbegin()->second)", "networks_.at(by_silence_.begin()->second)", ["coordinator/connection_places_test"]),
    Mutant("places: who is served gives way", PLACES, "void ConnectionPlaces::Place::ServeClient() {\n", "void ConnectionPlaces::Place::ServeClient() {\n  if (!left_) return;\n",
           ["coordinator/connection_places_test"]),
    Mutant("places: they are counted for ever", PLACES, "  --places_.taken_;\n", "", ["coordinator/connection_places_test"]),
    Mutant("places: newcomers push each other out", PLACES, "? 0 : own->second.taken) + 1", "? 0 : 0) + 1", ["coordinator/connection_places_test"]),
    Mutant("places: connections are not told of it", CONNECTION, "  MarkGone();\n  turns_.handshakes.Leave(handshake_ticket_, peer_);\n  Close();\n", "",
           ["e2e/limits_test:AddressTest.test_newcomer_is_served_when_silent_connections_from_many_addresses_fill_the_server"]),
    Mutant("places: who does not take answers keeps the place", "coordinator/api/http/connection_writing.cc", "if (served) place_->AwaitClient();", "",
           ["e2e/limits_test:AddressTest.test_connection_that_reads_no_answers_gives_way_to_a_newcomer"]),
    Mutant("places: requests are served as if their clients were silent", CONNECTION, "      place.ServeClient();\n", "",
           ["e2e/limits_test:AddressTest.test_connection_that_waits_for_its_answer_is_not_closed_for_a_newcomer"]),
    Mutant("tls: who leaves the line takes a turn", "coordinator/api/http/network_turns.cc", "waiting->second.tickets.erase(ticket) == 0", "true",
           ["coordinator/handshake_pace_test"]),
    Mutant("responses: kept conversations weigh nothing", "coordinator/api/openai/response_store.cc", "? 0 : *account->second.conversations.rbegin()", "? 0 : 0",
           ["coordinator/responses_test"]),
    Mutant("tls: any version", "coordinator/api/http/tls.cc", "TLS1_2_VERSION", "TLS1_VERSION", ["e2e/tls_test:TlsTest.test_tls_12_and_13_are_accepted_and_older_versions_refused"]),
    Mutant("tls: handshakes begin as fast as clients like", "coordinator/api/http/handshake_pace.h", "std::max(now, empty_ + apart_ - std::max<Clock::duration>(kBurst, apart_))", "now",
           ["coordinator/handshake_pace_test"]),
    Mutant("tls: whoever has most connections has most turns", "coordinator/api/http/network_turns.cc", "turns_.splice(turns_.end(), turns_, turns_.begin());", "",
           ["coordinator/handshake_pace_test"]),
    Mutant("tls: hellos wait for turns that never come", END, "socket_.PassHello();", "", tls("HelloTest.test_600_client_hellos_at_once_are_all_answered")),
    Mutant("tls: hellos that have not ended wait for turns", "coordinator/api/http/tls.cc", "return ::SSL_want(connection) == SSL_CLIENT_HELLO_CB;",
           "return true;", tls("HelloTest.test_connections_silent_after_the_client_hello_are_closed")),
    Mutant("tls: hellos that have not ended are OpenSSL's to hold", END, "const bool whole = co_await AwaitBytes(size);", "const bool whole = true;",
           tls("HelloTest.test_unfinished_client_hellos_take_little_memory_and_return_it")),
    Mutant("gate: commands of any size", "comm/wire/handshake_words.cc", "if (size > command.most) return kWrong;", "",
           ["comm/port_gate_test:HandshakeWordsTest.Initiate*"]),
    Mutant("gate: padding is not looked at", "comm/wire/handshake_words.cc", "constexpr size_t kPadding = 72;", "constexpr size_t kPadding = 0;",
           ["comm/port_gate_test:HandshakeWordsTest.Hello*"]),
    Mutant("gate: strangers stay as long as they like", "comm/wire/port_gate.cc", "late->deadline <= now", "false", ["comm/port_gate_test:PortGateTest.SilentConnection*"]),
    Mutant("gate: a network has all places", "comm/wire/gate_strangers.cc", "(same == by_network_.end() || same->second.all() < kMostOfNetwork)", "true",
           ["comm/port_gate_test:StrangersTest.NewConnection*"]),
    Mutant("gate: the longest line is served first", "comm/wire/gate_strangers.cc", "turns_.push_back(network);\n    if (next", "turns_.push_front(network);\n    if (next",
           ["comm/port_gate_test:StrangersTest.Networks*"]),
    Mutant("gate: ties fall by address", "comm/wire/gate_strangers.cc", "by_neighbourhood_.at(stranger.name.neighbourhood).of[knows_key] == most",
           "stranger.name.address == \"10.0.0.5\"", ["comm/port_gate_test:StrangersTest.*"]),
    Mutant("gate: whoever showed the key gives way to strangers", "comm/wire/port_gate.cc", "    strangers.KnowsKey(*next);\n", "",
           ["comm/port_gate_test:PortGateTest.ConnectionWithTheKey*"]),
    Mutant("gate: last words of a side that ended are dropped", "comm/wire/gate_links.cc", "if (ended) link.ended = side;", "if (ended) return false;",
           ["comm/port_gate_test:GateLinksTest.BytesBeforeTheEnd*"]),
    Mutant("gate: whoever does not take the rest keeps its link", "comm/wire/gate_links.cc", "    links_.erase(ending_.front().number);", "    (void)0;",
           ["comm/port_gate_test:GateLinksTest.Link_IsClosed*"]),
    Mutant("gate: what is not taken at once is lost", "comm/wire/gate_links.cc", "way.late.assign(buffer_.data() + sent, buffer_.data() + got);", "",
           ["comm/port_gate_test:PortGateTest.LargeFrames*"]),
    Mutant("tls: any number of handshakes is open", "coordinator/api/http/handshake_turns.cc", "if (open_.size() >= kMostOpen) {", "if (false) {",
           ["coordinator/handshake_pace_test:*Open*"]),
    Mutant("tls: hellos have lists of any length", "coordinator/api/http/tls.cc", "if (HasLongLists(connection)) return SSL_CLIENT_HELLO_ERROR;", "",
           tls("HelloTest.test_client_hello_with_oversized_lists_is_refused")),
    Mutant("tls: keys are agreed on over any group", "coordinator/api/http/tls.cc", ' &&  // TLS 1.3 has no others\n                   ::SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1;', ";",
           tls("HelloTest.test_slow_key_exchange_groups_are_not_accepted")),
    Mutant("tls: all handshakes are as cheap", "coordinator/api/http/handshake_pace.h", "std::max<Clock::duration>(kLeastApart, cost * 5 / 2)", "kLeastApart",
           ["coordinator/handshake_pace_test"]),
    Mutant("requests begin as fast as they come", "coordinator/api/http/request_turns.cc", "if (left_ > 0) {", "if (true) {", ["coordinator/request_turns_test"]),
    Mutant("heads come in as many pieces as a client likes", CONNECTION, "if (++reads == kMostHeadReads)", "if (++reads == -1)",
           tls("TlsTest.test_request_head_in_too_many_tls_records_is_refused")),
    Mutant("requests wait for ever", "coordinator/api/http/request_turns.cc", "if (left_ < kInOnePass) AwaitNextPass();", "", ["coordinator/request_turns_test:*FirstRequestOfANetwork*"]),
    Mutant("tls: keys change as often as a client likes", "coordinator/api/http/tls.cc", "if (is_message && ++bounds.messages >= kMostMessages) CutOff(connection, bounds);", "",
           tls("HelloTest.test_tls_key_updates_are_limited")),
    Mutant("tls: handshakes have no end", END,
           "Connection::Secure() {\n  SetDeadline(Clock::now() + std::chrono::seconds(limits_.chosen.head_seconds));", "Connection::Secure() {",
           tls("TlsTest.test_slow_tls_handshakes_are_closed_and_count_as_connections")),
    Mutant("tls: a client's end is seen with its socket's only", END, "  ReadEarly();\n}", "  PollForEnd();\n}", tls("TlsTest.test_tls_requests_end_when_the_client_disconnects")),
    Mutant("tls: the connection ends without a goodbye", END, "if (gone_ || said_goodbye_) co_return;", "co_return;", tls("TlsTest.test_tls_connection_serves_pipelined_requests")),
    Mutant("tls: what came early is lost", END, "self->buffer_.commit(1);", "", tls("TlsTest.test_request_sent_during_another_is_answered_next_over_tls")),
    Mutant("audit: prompts are shown", "coordinator/api/access/audit_log.cc", "const bool brief = IsShown(name) &&", "const bool brief =",
           logs("LogsTest.test_audit_log_names_the_operator_and_the_parameters")),
    Mutant("access log: paths with their query", CONNECTION, "record.path = request_.path;", 'record.path = request_.path + "?" + request_.query;',
           logs("LogsTest.test_access_log_has_one_line_per_request")),
    Mutant("network: mpirun stays where it was", NETWORK, "if (::unshare(CLONE_NEWNET) == 0) return;", "return;", ["e2e/security_test:PrivateNetworkTest.test_mpirun_is_unreachable_in_a_private_network"]),
]
