#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace haypile {

// A forward-only JSON reader for the large flat objects of safetensors files: unlike a document tree it reports
// duplicate keys and byte offsets, and costs linear time whatever the text. Strings are not checked to be UTF-8.
class JsonScanner {
 public:
  // `where` begins every message; `base_offset` is the text's place in its file.
  JsonScanner(std::string_view text, std::string where, uint64_t base_offset)
      : text_(text), where_(std::move(where)), base_offset_(base_offset) {}

  // Reads an object and calls `member` at each value, which it must read or skip. Duplicate keys are kMalformed.
  Status ReadObject(const std::function<Status(const std::string& key)>& member);
  Result<std::string> ReadString();
  // Integers from 0 to 2^63-1 without fraction or exponent.
  Result<int64_t> ReadInt();
  Result<std::vector<int64_t>> ReadIntArray();
  // Any value, nested up to 64 levels.
  Status SkipValue(int depth = 0);
  // Nothing but white space may follow.
  Status ExpectEnd();

  uint64_t offset() const { return base_offset_ + position_; }
  Error Bad(const std::string& what) const { return BadAt(offset(), what); }
  Error BadAt(uint64_t file_offset, const std::string& what) const;

 private:
  void SkipSpace();
  // The next character after white space; '\0' at the end.
  char Peek();
  Status Expect(char wanted);
  // After an element: true when another follows, false when the container closed.
  Result<bool> Continue(char close);
  Status AppendEscape(std::string* out);
  Result<uint32_t> ReadHex4();

  std::string_view text_;
  std::string where_;
  uint64_t base_offset_;
  size_t position_ = 0;
};

}  // namespace haypile
