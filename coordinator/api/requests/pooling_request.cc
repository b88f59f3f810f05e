#include "coordinator/api/requests/pooling_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "coordinator/api/requests/json_fields.h"

namespace quire {

namespace {

constexpr int kMostInputs = 2048;  // OpenAI's bound
constexpr size_t kMostInstructionBytes = 4096;
constexpr size_t kMostQueryBytes = 4 << 20;   // bytes of a query, times its repetitions
constexpr size_t kMostBeforeBytes = 4 << 20;  // bytes of a text before inputs, times their number
constexpr const char* kInstruction = "Given a web search query, retrieve relevant passages that answer the query";

/// Makes a call from the fields that all requests of this file share. The call samples one token per prompt, which is
/// dropped.
GenerateCall PoolingCall(const RequestBody& body, const RequestLimits& limits, FieldsOf kind) {
  const JsonFields fields(body.fields());
  if (limits.unknown) limits.unknown->Check(body.fields(), kind);
  GenerateCall call;
  ReadCallFields(fields, call);
  call.max_tokens = 0;
  call.ignore_eos = true;
  call.sampling.temperature = 0;
  return call;
}

/// Reads one text or a list of texts. Throws ApiError for a missing, empty or too long list, and for other values.
std::vector<std::string> ReadTexts(const JsonFields& fields, const char* name) {
  const Json* value = fields.Find(name);
  if (value == nullptr) JsonFields::Refuse(name, "is missing");
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.empty()) JsonFields::Refuse(name, "is empty: give at least one text");
  if (list.size() > kMostInputs) JsonFields::Refuse(name, fmt::format("takes at most {} texts", kMostInputs));
  std::vector<std::string> texts;
  for (const Json& item : list) {
    // Clients of Cohere and Jina may wrap a text as {"text": ...}.
    const Json* text = item.is_object() && item.size() == 1 && item.contains("text") ? &item["text"] : &item;
    if (!text->is_string()) JsonFields::Refuse(name, "must be a text or a list of texts");
    texts.push_back(text->get<std::string>());
  }
  return texts;
}

void CheckScores(const PoolingOptions& options) {
  if (!options.no_scores.empty()) throw ApiError(400, "this server scores no pairs: " + options.no_scores);
}

/// Throws ApiError for a single query that, repeated with each document, exceeds kMostQueryBytes. `more`: the bytes of
/// other text that is repeated with the query. `documents`: the number of documents.
void CheckRepeated(const std::vector<std::string>& queries, size_t more, size_t documents, const char* query_field) {
  const size_t repeated = queries.size() == 1 ? (queries[0].size() + more) * documents : 0;
  if (repeated <= kMostQueryBytes) return;
  JsonFields::Refuse(query_field, fmt::format("is read once with each document: {} bytes in all, at most {} are taken",
                                              repeated, kMostQueryBytes));
}

/// Adds pairs of texts that the model reads together.
void AddJoinedPairs(const std::vector<std::string>& queries, std::vector<std::string>& documents,
                    const char* query_field, GenerateCall& call) {
  CheckRepeated(queries, 0, documents.size(), query_field);
  for (size_t i = 0; i < documents.size(); ++i) call.prompts.emplace_back(queries[queries.size() == 1 ? 0 : i]);
  call.second_texts = std::move(documents);
}

/// Returns the names of the prompts in the model's files, for an error message. The files choose the names, so the list
/// has a limited number of names and a limited length of each name.
std::string NamesOfPrompts(const PoolingOptions& options) {
  constexpr size_t kMostNames = 20, kMostOfName = 64;
  std::string names;
  size_t count = 0;
  for (const auto& [name, text] : options.prompts) {
    if (count == kMostNames) return names + fmt::format(" and {} others", options.prompts.size() - kMostNames);
    names += (count++ > 0 ? ", " : "") + name.substr(0, kMostOfName);
  }
  return names;
}

/// Returns the text that goes before the inputs: the text that `prompt_name` names; without `prompt_name`, the text for
/// the given `input_type`, if the model has one; without both fields, the model's default text.
std::string PromptBefore(const JsonFields& fields, const PoolingOptions& options) {
  const auto text_of = [&](const std::string& name) {
    const auto found = options.prompts.find(name);
    return found == options.prompts.end() ? std::string() : found->second;
  };
  const std::optional<std::string> type = fields.Text("input_type");
  if (const std::optional<std::string> name = fields.Text("prompt_name")) {
    if (type) JsonFields::Refuse("prompt_name", "says what input_type says: give one of them");
    if (options.prompts.contains(*name)) return text_of(*name);
    JsonFields::Refuse("prompt_name", options.prompts.empty() ? "is not known: the model's files name no prompts"
                                                              : "must be one of " + NamesOfPrompts(options));
  }
  if (!type) return text_of(options.default_prompt);
  if (*type == "query" || *type == "search_query") return text_of("query");
  if (*type != "document" && *type != "search_document" && *type != "passage")
    JsonFields::Refuse("input_type", "must be query or document (also: search_query, search_document, passage)");
  return text_of(options.prompts.contains("document") ? "document" : "passage");
}

/// Adds the prompts of the pairs to the call. A single query is paired with every document.
void AddPairs(const JsonFields& fields, const PoolingOptions& options, std::vector<std::string> queries,
              std::vector<std::string> documents, const char* query_field, GenerateCall& call, PoolingTerms& terms) {
  terms.by_answer = options.by_answer;
  terms.by_pair = options.by_pair;
  terms.sigmoid = options.sigmoid;
  const std::string instruction = fields.Text("instruction").value_or(kInstruction);
  if (instruction.size() > kMostInstructionBytes)
    JsonFields::Refuse("instruction", fmt::format("takes at most {} bytes", kMostInstructionBytes));
  if (!options.by_answer) {
    if (fields.Has("instruction"))
      JsonFields::Refuse("instruction", "is for models that answer yes or no; put it into the query");
    call.sampling.pooling = options.pooling;
    if (options.by_pair) return AddJoinedPairs(queries, documents, query_field, call);
    terms.num_queries = queries.size();
    for (auto* texts : {&queries, &documents}) {
      for (std::string& text : *texts) call.prompts.emplace_back(std::move(text));
    }
    return;
  }
  CheckRepeated(queries, instruction.size(), documents.size(), query_field);
  for (size_t i = 0; i < documents.size(); ++i) {
    call.prompts.emplace_back(fmt::format("<Instruct>: {}\n<Query>: {}\n<Document>: {}", instruction,
                                          queries[queries.size() == 1 ? 0 : i], documents[i]));
  }
  call.framed = true;
  call.sampling.allowed_tokens = call.sampling.logprob_tokens = options.answers;
  call.num_top_logprobs = 0;
}

void ReadInputs(const JsonFields& fields, const RequestLimits& limits, GenerateCall& call) {
  RequestLimits many = limits;
  many.max_prompts = kMostInputs;
  call.prompts = ReadPrompts("input", fields.Find("input"), many, call.truncate_prompt_tokens != 0);
}

/// Puts the text of PromptBefore before each input.
void PutPrompts(const JsonFields& fields, const PoolingOptions& options, GenerateCall& call) {
  const std::string before = PromptBefore(fields, options);
  if (const size_t bytes = before.size() * call.prompts.size(); bytes > kMostBeforeBytes)
    JsonFields::Refuse("input",
                       fmt::format("has {} texts, each with the model's prompt of {} bytes before it: {} bytes "
                                   "of prompts, at most {} are allowed",
                                   call.prompts.size(), before.size(), bytes, kMostBeforeBytes));
  for (PromptInput& prompt : call.prompts) {
    if (before.empty()) break;
    auto* const text = std::get_if<std::string>(&prompt);
    if (text != nullptr)
      text->insert(0, before);
    else if (fields.Has("prompt_name") || fields.Has("input_type"))
      JsonFields::Refuse(fields.Has("prompt_name") ? "prompt_name" : "input_type", "is for inputs that are texts");
  }
}

/// Reads the fields that choose the form of the answer's vectors, which have `length` numbers.
void ReadVectorForm(const JsonFields& fields, int length, const PoolingOptions& options, PoolingTerms& terms) {
  terms.normalize = fields.Flag("normalize", options.normalize);
  terms.dimensions = static_cast<int>(fields.Integer("dimensions", 1, length).value_or(0));
  const std::string format = fields.Text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") JsonFields::Refuse("encoding_format", "must be float or base64");
  terms.base64 = format == "base64";
}

/// Sets the members of `terms` that concern classes. use_activation (older: activation) = false asks for the model's
/// logits in place of probabilities.
void SetClasses(const JsonFields& fields, const PoolingOptions& options, GenerateCall& call, PoolingTerms& terms) {
  if (options.labels == nullptr) {
    throw ApiError(400,
                   "this server sorts no texts into classes: config.json names no class for it "
                   "(...ForSequenceClassification)");
  }
  const bool scales = fields.Flag("use_activation", fields.Flag("activation", true));
  terms.labels = options.labels;
  terms.class_scale = scales ? options.class_scale : ClassScale::kNone;
  call.sampling.pooling = options.pooling;
}

/// Sets the members of `terms` for answers with numbers for every token: weights if `weights` is true, otherwise
/// vectors.
void SetTokens(const JsonFields& fields, const PoolingOptions& options, bool weights, GenerateCall& call,
               PoolingTerms& terms) {
  if (!options.no_tokens.empty()) throw ApiError(400, "this server makes no vectors of tokens: " + options.no_tokens);
  if (weights && !options.sparse)
    JsonFields::Refuse("task", "token_classify is for models with weights of tokens (sparse_linear.safetensors)");
  ReadVectorForm(fields, options.row, options, terms);
  if (terms.base64) JsonFields::Refuse("encoding_format", "must be float for numbers of every token");
  if (weights && terms.dimensions > 0) JsonFields::Refuse("dimensions", "is for vectors, not for weights");
  terms.weights = weights;
  terms.row = weights ? 1 : options.row;
  call.sampling.pooling = weights ? Pooling::kSparse : options.colbert ? Pooling::kColbert : Pooling::kAll;
  if (weights || options.colbert) terms.opening = options.opening;
  if (weights) terms.closing = options.closing;
}

}  // namespace

GenerateCall ParseEmbeddingRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                   PoolingTerms& terms) {
  if (!options.no_pooling.empty()) throw ApiError(400, "this server makes no embeddings: " + options.no_pooling);
  GenerateCall call = PoolingCall(body, limits, FieldsOf::kEmbeddings);
  const JsonFields fields(body.fields());
  terms.kind = PoolingTerms::Kind::kEmbeddings;
  ReadVectorForm(fields, options.hidden, options, terms);
  call.sampling.pooling = options.pooling;
  ReadInputs(fields, limits, call);
  PutPrompts(fields, options, call);
  return call;
}

GenerateCall ParseRerankRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                PoolingTerms& terms) {
  const JsonFields fields(body.fields());
  CheckScores(options);
  GenerateCall call = PoolingCall(body, limits, FieldsOf::kRerank);
  terms.kind = PoolingTerms::Kind::kRerank;
  const std::optional<std::string> query = fields.Text("query");
  if (!query) JsonFields::Refuse("query", "is missing");
  std::vector<std::string> documents = ReadTexts(fields, "documents");
  terms.top_n = static_cast<size_t>(fields.Integer("top_n", 0, INT32_MAX).value_or(0));
  if (fields.Flag("return_documents", true)) terms.documents = documents;
  AddPairs(fields, options, {*query}, std::move(documents), "query", call, terms);
  return call;
}

GenerateCall ParseScoreRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                               PoolingTerms& terms) {
  const JsonFields fields(body.fields());
  CheckScores(options);
  GenerateCall call = PoolingCall(body, limits, FieldsOf::kScore);
  terms.kind = PoolingTerms::Kind::kScore;
  // vLLM has two names for each field.
  const char* first = fields.Has("queries") ? "queries" : "text_1";
  const char* second = fields.Has("documents") ? "documents" : "text_2";
  std::vector<std::string> queries = ReadTexts(fields, first), documents = ReadTexts(fields, second);
  if (queries.size() != 1 && queries.size() != documents.size()) {
    JsonFields::Refuse(
        first, fmt::format("must be one text, or as many as {}: {}, not {}", second, documents.size(), queries.size()));
  }
  AddPairs(fields, options, std::move(queries), std::move(documents), first, call, terms);
  return call;
}

GenerateCall ParseClassifyRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                  PoolingTerms& terms) {
  GenerateCall call = PoolingCall(body, limits, FieldsOf::kClassify);
  const JsonFields fields(body.fields());
  terms.kind = PoolingTerms::Kind::kClasses;
  SetClasses(fields, options, call, terms);
  ReadInputs(fields, limits, call);
  return call;
}

GenerateCall ParsePoolingRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                 PoolingTerms& terms) {
  GenerateCall call = PoolingCall(body, limits, FieldsOf::kPooling);
  const JsonFields fields(body.fields());
  terms.kind = PoolingTerms::Kind::kPooling;
  const char* usual = options.labels != nullptr ? "classify" : options.no_pooling.empty() ? "embed" : "token_embed";
  const std::string task = fields.Text("task").value_or(usual);
  const bool of_tokens = task == "token_embed" || task == "token_classify";
  if (task == "embed") {
    if (!options.no_pooling.empty()) throw ApiError(400, "this server makes no embeddings: " + options.no_pooling);
    ReadVectorForm(fields, options.hidden, options, terms);
    call.sampling.pooling = options.pooling;
  } else if (task == "classify") {
    for (const char* name : {"dimensions", "normalize"}) {
      if (fields.Has(name)) JsonFields::Refuse(name, "is for vectors, not for classes");
    }
    ReadVectorForm(fields, options.hidden, options, terms);
    terms.normalize = false;
    SetClasses(fields, options, call, terms);
  } else if (of_tokens) {
    SetTokens(fields, options, task == "token_classify", call, terms);
  } else {
    JsonFields::Refuse("task", "must be embed, classify, token_embed or token_classify");
  }
  if (task != "classify" && (fields.Has("use_activation") || fields.Has("activation")))
    JsonFields::Refuse(fields.Has("use_activation") ? "use_activation" : "activation", "is for classes");
  ReadInputs(fields, limits, call);
  PutPrompts(fields, options, call);
  return call;
}

}  // namespace quire
