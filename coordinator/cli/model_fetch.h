#pragma once

#include <string>

#include "comm/base/error.h"

namespace quire {

/// Reports a fetch that failed: another attempt may go well, unlike after other errors of the settings.
class FetchError : public Error {
 public:
  using Error::Error;
};

/// Resolves the model as FindModel does. With `fetch`, an ORG/NAME that the Hugging Face cache lacks, or holds in part,
/// is fetched first, by the script fetch-model that was installed with this program. Without it, a user at a terminal
/// is asked; elsewhere an Error names the flag and the command. Throws FetchError when the script fails.
std::string FindOrFetchModel(const std::string& text, bool fetch);

}  // namespace quire
