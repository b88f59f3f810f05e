"""Planted bugs in settings that operators change while the server runs."""
from mutant import Mutant


def live(test):
    return ["e2e/live_settings_test:" + test]


SETTINGS, CONTROL, SERVE = "coordinator/api/admin/live_settings.cc", "coordinator/api/admin/admin_control.cc", "coordinator/server/serve.cc"
SERVER = "LiveSettingsTest."

MUTANTS = [
    Mutant("live: every key can change", SETTINGS, "for (const std::string& key : keys) RefuseUnlessLive(key);", "", live(SERVER + "test_patch_refuses_other_settings_by_name_and_changes_nothing")),
    Mutant("live: null leaves a setting as it is", SETTINGS, "Find(key)->copy(started_, next);", "", live(SERVER + "test_log_level_changes_while_the_server_runs")),
    Mutant("live: what no single key can tell is not looked at", SETTINGS, 'ValidateTopology(next, "these changes");', "", live(SERVER + "test_patch_refuses_other_settings_by_name_and_changes_nothing")),
    Mutant("live: limits of a key are added to those it had", SETTINGS, "next.key_limits.erase(name);", "", live("KeysTest.test_key_limits_change_while_the_server_runs")),
    Mutant("live: one key's limits take those of others away", SETTINGS, "next.key_limits.erase(name);", "next.key_limits.clear();", live("KeysTest.test_key_limits_change_while_the_server_runs")),
    Mutant("live: a client's part of the memory stays half of what was", SETTINGS, "in_force_ = WithLimitsOfThisProcess(given_);",
           "in_force_ = WithLimitsOfThisProcess(given_);\n  in_force_.limits.memory_bytes_per_client = started_.limits.memory_bytes / 2;", live(SERVER + "test_request_memory_limits_change_while_the_server_runs")),
    Mutant("live: the first replica alone hears of it", CONTROL, "workers != nullptr && r < workers->replicas().size(); ++r) {",
           "workers != nullptr && r < 1; ++r) {", live(SERVER + "test_new_queue_seconds_ends_requests_that_already_wait")),
    Mutant("live: the log level stays", SERVE, "SetLogLevel(now.logs.level);", "", live(SERVER + "test_log_level_changes_while_the_server_runs")),
    Mutant("live: connections keep their times", SERVE, "data_server_->SetTimes(now.limits);", "", live(SERVER + "test_connection_timeouts_change_while_the_server_runs")),
    Mutant("live: the memory of requests stays", SERVE, "data_memory_.SetLimits({now.limits.memory_bytes, now.limits.memory_bytes_per_client});", "",
           live(SERVER + "test_request_memory_limits_change_while_the_server_runs")),
    Mutant("live: limits of keys stay", SERVE, "data.SetKeyLimits(now.key_limits);", "", live("KeysTest.test_key_limits_change_while_the_server_runs")),
    Mutant("live: nobody is warned of limits without a key", SERVE, "gates_->NoteKeyLimits(now.key_limits);", "", live("KeysTest.test_server_warns_of_a_limit_for_an_unknown_key")),
    Mutant("live: changes are not written down", "coordinator/api/access/audit_log.cc", ' || method == "PATCH"', "", live("KeysTest.test_patch_needs_the_control_scope_and_is_audited")),
]
