// Text generation with a program that has a method for one token and usually one for many: tokens in, tokens out.
#pragma once
#include "npusim/text.h"
#include "text/text_model.h"

namespace npusim {

// Of the session's program, or with fewer methods than it has.
Generation generate(Session& session, const TextFacts& text, const std::vector<int64_t>& prompt,
                    const GenerateOptions& options, const std::function<void(int64_t)>& on_token);

}  // namespace npusim
