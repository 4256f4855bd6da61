#include "base/error_code.h"

#include <array>

namespace haypile {
namespace {

constexpr std::array<ErrorCodeInfo, 9> kTable = {{
    {ErrorCode::kInvalidArgument, "invalid_argument", 2, 400, "invalid_request_error"},
    {ErrorCode::kNotFound, "not_found", 3, 404, "not_found_error"},
    {ErrorCode::kMalformed, "malformed", 4, 400, "invalid_request_error"},
    {ErrorCode::kUnsupported, "unsupported", 5, 501, "invalid_request_error"},
    {ErrorCode::kOutOfBudget, "out_of_budget", 6, 400, "invalid_request_error"},
    {ErrorCode::kIo, "io", 7, 500, "server_error"},
    {ErrorCode::kNetwork, "network", 8, 502, "server_error"},
    {ErrorCode::kInterrupted, "interrupted", 130, 499, "server_error"},
    {ErrorCode::kInternal, "internal", 70, 500, "server_error"},
}};

}  // namespace

const ErrorCodeInfo& InfoOf(ErrorCode code) { return kTable[static_cast<size_t>(code)]; }

}  // namespace haypile
