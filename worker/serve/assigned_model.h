#pragma once

#include <optional>

#include "comm/model/model_files.h"
#include "comm/wire/messages.h"

namespace quire {

/// Opens the model and the adapters that the coordinator's Assign message names. Throws SettingsError when this host
/// cannot open them, or when they differ from the coordinator's.
ModelFiles OpenAssigned(const AssignMessage& assign);

/// Opens the draft model that the message names; returns nothing when it names none. Throws as OpenAssigned does.
std::optional<ModelFiles> OpenAssignedDraft(const AssignMessage& assign);

}  // namespace quire
