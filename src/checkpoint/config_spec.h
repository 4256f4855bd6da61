#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "spec/model_spec.h"

namespace haypile {

// The hyper-parameters in a Hugging Face config.json; `name` stands for the file in messages. A gemma3 config for text
// and images gives its text part. Fields that a family's configs may leave out take that family's default. kUnsupported
// names an architecture or feature that cannot be run rightly.
Result<ModelSpec> ModelSpecFromConfig(const std::string& name, std::string_view text);

}  // namespace haypile
