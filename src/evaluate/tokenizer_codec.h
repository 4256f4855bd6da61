#pragma once

#include "evaluate/generator.h"
#include "tokenizer/tokenizer.h"

namespace haypile {

// The model's own tokenizer and, when it has one, chat template. `tokenizer` must outlive the codec.
TextCodec TokenizerCodec(const Tokenizer& tokenizer);

}  // namespace haypile
