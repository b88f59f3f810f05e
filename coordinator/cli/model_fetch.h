#pragma once

#include <string>

#include "comm/base/error.h"

namespace quire {

/// Reports a failed fetch. Another attempt may succeed, unlike after other errors of the settings.
class FetchError : public Error {
 public:
  using Error::Error;
};

/// Resolves the model as FindModel does. With `fetch`, if the text is an ORG/NAME that the Hugging Face cache lacks, or
/// has only in part, the installed script fetch-model fetches it first. Without `fetch`, if the cache lacks the model
/// altogether, asks a user at a terminal. Without a terminal or the user's consent, throws Error that names the flag
/// and the command. Throws FetchError when the script fails.
std::string FindOrFetchModel(const std::string& text, bool fetch);

}  // namespace quire
