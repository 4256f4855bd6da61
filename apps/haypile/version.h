#pragma once

namespace haypile {

extern const char* const kVersion;  // "0.1.0"
extern const char* const kCommit;   // of the source, abbreviated; empty when built outside a repository

}  // namespace haypile
