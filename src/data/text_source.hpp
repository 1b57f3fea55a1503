#pragma once
// From the path of a source to token files: a .bin/.idx prefix, text that is tokenized into the user's cache, or a
// folder of either. The cache's key is made of the content, the tokenizer and the text key, so that a changed file is
// tokenized anew.

#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/data/token_file.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

// `name` is the source's place in the config, for messages. Refuses files of another tokenizer and ids at or above
// vocab_size.
std::vector<TokenFile> open_token_files(const std::string& name, const std::filesystem::path& path,
                                        const std::string& text_key, const text::Tokenizer& tokenizer,
                                        text::TokenId end_token, std::int64_t vocab_size);

}  // namespace hydra::data
