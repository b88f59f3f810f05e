#include "comm/wire/messages.h"

namespace quire {

const char* const kBuildVersion = QUIRE_VERSION;

}  // namespace quire
