#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error_code.h"

namespace haypile {

// An error that input, environment or budget can cause: a code, one sentence that says what was wrong, where,
// what was expected and what to do, and the chain of what the program was doing (outermost first).
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Puts `context` in front: "reading model.gguf: tensor 'x' ...".
  Error WithContext(const std::string& context) && {
    message_ = context + ": " + message_;
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  std::string message_;
};

// A value or an Error. Reading the value of an error is a programmer's mistake and aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() & {
    HAYPILE_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    HAYPILE_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    HAYPILE_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    HAYPILE_CHECK(!ok());
    return std::get<Error>(state_);
  }
  Error&& error() && {
    HAYPILE_CHECK(!ok());
    return std::get<Error>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    HAYPILE_CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    HAYPILE_CHECK(!ok());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace haypile

#define HAYPILE_CONCAT_INNER(a, b) a##b
#define HAYPILE_CONCAT(a, b) HAYPILE_CONCAT_INNER(a, b)

// Evaluates a Result; returns its Error from the calling function, or goes on.
#define HAYPILE_TRY(expression)                                         \
  do {                                                                  \
    auto haypile_result = (expression);                                 \
    if (!haypile_result.ok()) return std::move(haypile_result).error(); \
  } while (false)

// HAYPILE_TRY_ASSIGN(auto x, F()): declares or assigns the value, or returns the Error.
#define HAYPILE_TRY_ASSIGN(lhs, expression) \
  HAYPILE_TRY_ASSIGN_IMPL(HAYPILE_CONCAT(haypile_try_, __LINE__), lhs, expression)
#define HAYPILE_TRY_ASSIGN_IMPL(name, lhs, expression) \
  auto name = (expression);                            \
  if (!name.ok()) return std::move(name).error();      \
  lhs = std::move(name).value()
