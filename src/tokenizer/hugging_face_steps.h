#pragma once

#include "base/json_fwd.h"
#include "base/result.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {

// Reads "normalizer" and "pre_tokenizer" of a parsed tokenizer.json into kind, steps, nfc and space prefix of `spec`.
// Understood: NFC, Prepend and Replace of spaces with U+2581; Split, ByteLevel, Digits, Metaspace; Sequences of these.
// kUnsupported names anything else.
Status ReadHuggingFaceSteps(const Json& root, TokenizerSpec* spec);

}  // namespace haypile
