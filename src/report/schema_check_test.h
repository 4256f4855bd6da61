#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace haypile {

// Where `value` breaks `schema`, as "path: what"; empty when it is valid. Knows the part of JSON Schema 2020-12 that
// the project's schemas use (type, enum, properties, required, additionalProperties false, items, minimum, maximum,
// $ref into $defs) and reports any other keyword, so that a schema cannot claim what is not checked.
std::vector<std::string> SchemaErrors(const Json& schema, const Json& value);

// The project's published schema docs/schemas/<name>.
Json LoadSchema(const std::string& name);

}  // namespace haypile
