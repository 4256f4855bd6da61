#pragma once

#include <span>
#include <string_view>

namespace haypile {

// What became of a start that a row describes.
enum class LaunchOutcome {
  kRefused,  // ends at the start, or at the first request
  kWrong,    // serves, and answers are wrong or the memory is not what was asked for
  kRisk,     // serves, and something is worse than believed
  kNote,     // serves; a fact to know
};

// A known outcome of a combination: part of the support matrix, beside the rows of what is served
// (planner/engine_support_rows.h), in the same small language of words. Every column but the last seven must hold.
struct LaunchRow {
  std::string_view id;        // of the finding
  std::string_view engines;   // any of them; "": all
  std::string_view versions;  // engine_support_match.h; "": all
  std::string_view devices;   // engine_support_match.h
  std::string_view backends;  // any: the one asked for, or the one predicted; "": all
  std::string_view dtypes;    // any; llama.cpp: of K or V; "": all
  std::string_view heads;     // some head size has it: "256", "!pow2"; "": all
  std::string_view features;  // all of LaunchFeatures hold; "!x": x does not; "x|y": one of them
  std::string_view models;    // any: start of the model type; "": all
  LaunchOutcome outcome;
  // Texts; {dtype}, {gpu}, {capability}, {head}, {heads}, {ranks}, {backend}, {method}, {model}, {model_dtype},
  // {model_dtype_flag}, {last_layer}, {bias} and {scales} are filled in.
  std::string_view what, why, type, check, source;  // `type`: commands, a newline between
};

std::span<const LaunchRow> VllmLaunchRows();
std::span<const LaunchRow> OtherLaunchRows();

}  // namespace haypile
